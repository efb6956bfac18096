//! Names of the kernel's functions (`/proc/kallsyms`).

use std::fs;

use crate::error::Errno;
use crate::sys::Sys;

/// Functions by address.
#[derive(Debug)]
pub(super) struct Symbols {
    /// Sorted by address.
    functions: Vec<(u64, String)>,
}

impl Symbols {
    /// Those of the running kernel.
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

    /// Lines of address, kind, name; `t`, `T`, `w` and `W` are functions (`nm(1)`).
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

    /// The names of the functions that these addresses lie in.
    pub(super) fn names(&self, chain: &[u64]) -> Vec<&str> {
        let name = |address: &u64| {
            let behind = self.functions.partition_point(|(begin, _)| begin <= address);
            behind.checked_sub(1).map(|place| self.functions[place].1.as_str())
        };
        chain.iter().filter_map(name).collect()
    }
}

#[cfg(fuzzing)]
pub(super) fn fuzz(table: &str) {
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
    }
}
