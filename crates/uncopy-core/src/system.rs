//! Names of the operating systems that options and mechanisms depend on.

use std::fmt;

/// A system, as far as copies differ between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum System {
    /// Linux.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
    /// Any other system with Rust's standard library, for example a BSD.
    Other,
}

impl System {
    /// Every system.
    pub const ALL: [System; 4] = [System::Linux, System::MacOs, System::Windows, System::Other];

    /// The system that this code was compiled for.
    pub const HERE: System = if crate::IS_LINUX {
        System::Linux
    } else if cfg!(target_os = "macos") {
        System::MacOs
    } else if cfg!(target_os = "windows") {
        System::Windows
    } else {
        System::Other
    };

    /// Name for people: `macOS`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            System::Linux => "Linux",
            System::MacOs => "macOS",
            System::Windows => "Windows",
            System::Other => "other systems",
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
