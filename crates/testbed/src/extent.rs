//! How much a run of the tests looks at.

use std::cell::Cell;

/// How far tests go that could go on for hours. `UNCOPY_TEST_FULL` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Unset: a short form of each proof, for whoever is changing something.
    Short,
    /// `1`: the whole of each, before a change lands.
    Full,
    /// `soak`: races in many more rounds, which takes many minutes each.
    Soak,
}

impl Extent {
    /// Returns what the environment asks for.
    ///
    /// # Panics
    /// On a value that is none of these, so that a misspelt one does not pass for the whole.
    #[must_use]
    pub fn asked() -> Extent {
        match std::env::var("UNCOPY_TEST_FULL").ok().as_deref() {
            None | Some("" | "0") => Extent::Short,
            Some("1") => Extent::Full,
            Some("soak") => Extent::Soak,
            Some(other) => panic!("UNCOPY_TEST_FULL is 1 or soak, not {other:?}"),
        }
    }

    /// Tells whether this is the whole, or more.
    #[must_use]
    pub fn is_full(self) -> bool {
        self >= Extent::Full
    }
}

thread_local! {
    static IS_CUT_SHORT: Cell<bool> = const { Cell::new(false) };
}

/// Returns the amount for the extent that is asked for, in the order of [`Extent`]; the test that calls
/// it counts as cut short where that is the first.
///
/// Call it on the test's own thread.
pub fn by_extent<T>([short, full, soak]: [T; 3]) -> T {
    match Extent::asked() {
        Extent::Short => {
            IS_CUT_SHORT.set(true);
            short
        }
        Extent::Full => full,
        Extent::Soak => soak,
    }
}

/// Returns whether [`by_extent`] cut the test on this thread short, and forgets it.
pub(crate) fn take_is_cut_short() -> bool {
    IS_CUT_SHORT.replace(false)
}
