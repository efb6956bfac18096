//! How units are spread over the elements of an array job (pure).

use std::num::NonZeroU32;

/// Limits of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// `MaxArraySize`: an index of an array is below it. 0: there are no arrays.
    pub(super) array: u32,
    /// `MaxJobCount`: number of jobs that the controller keeps; each element of an array is one.
    pub(super) jobs: u32,
}

impl Default for Limits {
    /// Those of `slurm.conf(5)`.
    fn default() -> Limits {
        Limits { array: 1001, jobs: 10_000 }
    }
}

impl Limits {
    /// Reads what `scontrol show config` prints.
    pub(super) fn parse(text: &str) -> Limits {
        let of = |name: &str, default: u32| {
            let values = text.lines().filter_map(|line| line.split_once('='));
            let mut found = values.filter(|(key, _)| key.trim() == name);
            found.next().and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(default)
        };
        let usual = Limits::default();
        Limits { array: of("MaxArraySize", usual.array), jobs: of("MaxJobCount", usual.jobs) }
    }

    /// Returns the number of elements that an array may have. Half of the jobs are left to others.
    fn elements(self) -> u32 {
        self.array.min(self.jobs / 2)
    }
}

/// Elements of an array, and the number of units of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Number of elements.
    pub(super) elements: u32,
    /// Number of units that an element does; the last one may have fewer.
    pub(super) together: NonZeroU32,
}

impl Layout {
    /// Spreads units. Where there are too many for one array, elements do more of them: what is too much for the time limit
    /// of a job is left to the next submission. `None`: the cluster allows no arrays; `Some(None)`: there are no units.
    pub(super) fn new(units: u64, together: NonZeroU32, limits: Limits) -> Option<Option<Layout>> {
        if units == 0 {
            return Some(None);
        }
        let most = limits.elements();
        if most == 0 {
            return None;
        }
        let needed = u32::try_from(units.div_ceil(most.into())).ok().and_then(NonZeroU32::new);
        let together = together.max(needed?);
        let elements = u32::try_from(units.div_ceil(together.get().into())).ok()?;
        Some(Some(Layout { elements, together }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_cluster() {
        let text = "Configuration data as of now\nMaxArraySize            = 1001\nMaxDBDMsgs = 20\n\
                    MaxJobCount             = 7\n";
        assert_eq!(Limits::parse(text), Limits { array: 1001, jobs: 7 });
        assert_eq!(Limits::parse("MaxArraySize = many"), Limits::default());
        assert_eq!(Limits::parse(""), Limits::default());
    }

    #[test]
    fn arrays_fit_the_cluster_and_have_all_units() {
        let usual = Limits::default();
        let small = Limits { array: 10, jobs: 100 };
        for (units, together, limits, expected) in [
            (1, 1, usual, (1, 1)),
            (1001, 1, usual, (1001, 1)),
            (1002, 1, usual, (501, 2)),
            (100_000, 1, usual, (1000, 100)),
            (100, 7, usual, (15, 7)),
            (100, 7, small, (10, 10)),
            (100, 1, Limits { array: 1000, jobs: 20 }, (10, 10)),
            (3, 100, usual, (1, 100)),
            (100_000_000, 1, usual, (1001, 99_901)),
        ] {
            let layout = Layout::new(units, NonZeroU32::new(together).unwrap(), limits);
            let layout = layout.unwrap().unwrap();
            assert_eq!((layout.elements, layout.together.get()), expected, "{units} {limits:?}");
            assert!(layout.elements <= limits.array);
            assert!(u64::from(layout.elements) * u64::from(layout.together.get()) >= units);
        }
        assert_eq!(Layout::new(0, NonZeroU32::MIN, usual), Some(None));
        assert_eq!(Layout::new(1, NonZeroU32::MIN, Limits { array: 0, jobs: 10 }), None);
    }
}
