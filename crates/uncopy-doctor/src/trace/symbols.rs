//! Names of the kernel's functions (`/proc/kallsyms`).

use std::fs;

use uncopy_core::Errno;
use uncopy_os::Sys;

/// Functions by address.
#[derive(Debug)]
pub(super) struct Symbols {
    /// Sorted by address.
    functions: Vec<(u64, String)>,
}

impl Symbols {
    /// Loads the functions of the running kernel.
    ///
    /// # Errors
    /// `EACCES`: their addresses are hidden (`kernel.kptr_restrict`).
    pub(super) fn load() -> Sys<Symbols> {
        let table = fs::read_to_string("/proc/kallsyms");
        let table =
            table.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
        let symbols = Symbols::of(&table);
        if symbols.functions.is_empty() { Err(Errno::EACCES) } else { Ok(symbols) }
    }

    /// Parses lines of address, kind, name; `t`, `T`, `w` and `W` are functions (`nm(1)`).
    fn of(table: &str) -> Symbols {
        let function = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_function = matches!(words.next()?, "t" | "T" | "w" | "W");
            (address != 0 && is_function).then_some((address, words.next()?.to_owned()))
        };
        let mut functions: Vec<(u64, String)> = table.lines().filter_map(function).collect();
        functions.sort_unstable();
        Symbols { functions }
    }

    /// Returns the names of the functions of a call chain, the innermost first. All addresses except the first
    /// are return addresses, which may lie behind the last instruction of a function.
    pub(super) fn names(&self, chain: &[u64]) -> Vec<&str> {
        let name = |(place, address): (usize, &u64)| {
            let inside = address.saturating_sub(u64::from(place > 0));
            let behind = self.functions.partition_point(|(begin, _)| *begin <= inside);
            behind.checked_sub(1).map(|place| self.functions[place].1.as_str())
        };
        chain.iter().enumerate().filter_map(name).collect()
    }
}

#[cfg(fuzzing)]
pub(crate) fn fuzz(table: &str) {
    let _ = Symbols::of(table).names(&[0, 1, u64::MAX]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lie_in_functions() {
        let symbols = Symbols::of(
            "ffff000000000010 T first\nffff000000000100 t second\nffff000000000200 d data\n\
             0000000000000000 T hidden\nffff000000000300 W third\t[module]\n",
        );
        assert_eq!(
            symbols.names(&[
                0xffff_0000_0000_0010,
                0xffff_0000_0000_01ff,
                0xffff_0000_0000_0301,
                5
            ]),
            ["first", "second", "third"]
        );
        // Behind the last instruction of a function that does not return.
        assert_eq!(symbols.names(&[0xffff_0000_0000_0100; 2]), ["second", "first"]);
    }

    /// Malformed tables give functions or nothing, and no panic.
    #[test]
    fn odd_tables_are_read() {
        let at = 0xffff_0000_0000_0010;
        for (table, expected) in [
            ("", None),
            ("\n\n  \n", None),
            ("no address T here", None),
            ("ffff000000000010", None),
            ("ffff000000000010 T", None),
            ("ffff000000000010 T\t\n", None),
            ("ffff000000000010 D data", None),
            ("ffff000000000010  T \t spaced  \r", Some("spaced")),
            ("10000000000000000 T too_large\nffff000000000010 T fits", Some("fits")),
            ("-1 T negative\n+1 T signed", Some("signed")),
            ("ffff000000000010 t f.constprop.0\t[a module]", Some("f.constprop.0")),
            ("ffff000000000020 T later", None),
            ("FFFF000000000010 T upper\n1 T lowest", Some("upper")),
            ("ffff000000000010 T \u{1b}[2J\u{202e}name", Some("\u{1b}[2J\u{202e}name")),
        ] {
            let symbols = Symbols::of(table);
            let found = symbols.names(&[at]);
            assert_eq!(found.first().copied(), expected, "{table:?}");
            assert_eq!(symbols.names(&[]), [""; 0]);
            let _ = symbols.names(&[0, 0, u64::MAX]);
        }
    }
}
