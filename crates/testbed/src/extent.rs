//! Amount of work in a test run.

use std::cell::Cell;

/// Length of tests that could run for hours, set by `UNCOPY_TEST_FULL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Unset: a short form of each test, for use during development.
    Short,
    /// `1`: the full form of each test, before a change lands.
    Full,
    /// `soak`: races in many more rounds, which takes many minutes each.
    Soak,
}

impl Extent {
    /// Reads the extent from the environment.
    ///
    /// # Panics
    /// On an unknown value, so that a misspelt one does not pass for the full form.
    #[must_use]
    pub fn from_env() -> Extent {
        match std::env::var("UNCOPY_TEST_FULL").ok().as_deref() {
            None | Some("" | "0") => Extent::Short,
            Some("1") => Extent::Full,
            Some("soak") => Extent::Soak,
            Some(other) => panic!("UNCOPY_TEST_FULL is 1 or soak, not {other:?}"),
        }
    }

    /// Whether this is the full form, or more.
    #[must_use]
    pub fn is_full(self) -> bool {
        self >= Extent::Full
    }
}

thread_local! {
    static IS_CUT_SHORT: Cell<bool> = const { Cell::new(false) };
}

/// Returns the amount for the current extent, in the order of [`Extent`]. In the short extent, the
/// calling test is reported as cut short.
///
/// Call it on the test's own thread.
pub fn by_extent<T>([short, full, soak]: [T; 3]) -> T {
    match Extent::from_env() {
        Extent::Short => {
            IS_CUT_SHORT.set(true);
            short
        }
        Extent::Full => full,
        Extent::Soak => soak,
    }
}

/// Returns whether [`by_extent`] cut the test on this thread short, and resets that.
pub(crate) fn take_is_cut_short() -> bool {
    IS_CUT_SHORT.replace(false)
}
