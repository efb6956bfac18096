//! Control files: what a package is, and what it needs (pure but for the environment).

use crate::package::texts::VERSION;

/// A package of Debian.
pub(super) struct Package {
    pub(super) name: &'static str,
    section: &'static str,
    summary: &'static str,
    /// Lines of at most 79 characters, without the space that a control file puts before each.
    description: &'static str,
    pub(super) binary: Binary,
    /// Packages that it needs beside those with shared libraries.
    also_needs: Option<&'static str>,
    recommends: Option<&'static str>,
    suggests: Option<&'static str>,
    /// Whether packages of several architectures can be installed side by side.
    is_multiarch: bool,
    pub(super) triggers: Option<&'static str>,
}

/// File of a package that needs shared libraries.
pub(super) enum Binary {
    /// The program at this path.
    Program(&'static str),
    Library,
    None,
}

/// Path of the program in its package.
pub(super) const PROGRAM_FILE: &str = "usr/bin/uncopy";

/// Path of the program `uncopy-fleet` in its package.
pub(super) const FLEET_FILE: &str = "usr/bin/uncopy-fleet";

pub(super) const PROGRAM: Package = Package {
    name: "uncopy",
    section: "utils",
    summary: "copy files the cheapest correct way, and say how",
    description: "\
uncopy copies files and trees, here or to another machine, by shared blocks,
by pages that the disk reads directly, by a copy inside the kernel, or by read
and write, whichever is the cheapest correct way. The old file stays whole
meanwhile.
.
Every copy gives a receipt, and \"uncopy doctor\" says why bytes are copied on a
path.",
    binary: Binary::Program(PROGRAM_FILE),
    also_needs: None,
    recommends: Some("openssh-client"),
    suggests: Some("uncopy-fleet"),
    is_multiarch: false,
    triggers: None,
};

pub(super) const FLEET: Package = Package {
    name: "uncopy-fleet",
    section: "utils",
    summary: "give units of copies to Slurm and NATS",
    description: "\
A copy that outgrows one machine is cut into units of work (\"uncopy unit
plan\"). This program gives the units to an array of jobs of Slurm or to a
queue of NATS, runs them as a worker, and says what is left to do. \"uncopy
fleet\" starts it.
.
It is needed on machines that submit and on those that work.",
    binary: Binary::Program(FLEET_FILE),
    also_needs: Some("uncopy"),
    recommends: None,
    suggests: Some("slurm-client, nats-server"),
    is_multiarch: false,
    triggers: None,
};

pub(super) const LIBRARY: Package = Package {
    name: "libuncopy-zx0",
    section: "libs",
    summary: "Zircon's channel calls on Linux",
    description: "\
Code written for Zircon's channels runs unchanged with this library: the
channel calls, handles, events and ports, within a process and between
processes.
.
This package has what programs need to run.",
    binary: Binary::Library,
    also_needs: None,
    recommends: None,
    suggests: None,
    is_multiarch: true,
    triggers: Some("activate-noawait ldconfig\n"),
};

pub(super) const DEVELOPMENT: Package = Package {
    name: "libuncopy-zx-dev",
    section: "libdevel",
    summary: "Zircon's channel calls on Linux (headers)",
    description: "\
Code written for Zircon's channels compiles unchanged with these headers: the
channel calls, handles, events and ports, within a process and between
processes.
.
This package has what compiling needs: headers, a static library, a file for
pkg-config, and suppressions for Valgrind.",
    binary: Binary::None,
    also_needs: Some("libuncopy-zx0"),
    recommends: None,
    suggests: None,
    is_multiarch: true,
    triggers: None,
};

/// Version of a package: that of the sources, and a revision of the packaging.
pub(super) fn version() -> String {
    format!("{VERSION}-1")
}

/// Name and address of who answers for packages, as Debian's tools take them from the environment.
pub(super) fn maintainer() -> String {
    let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let name = named("DEBFULLNAME").unwrap_or_else(|| "The uncopy contributors".to_owned());
    let address = named("DEBEMAIL").unwrap_or_else(|| "uncopy@localhost.localdomain".to_owned());
    format!("{name} <{address}>")
}

/// The source package, for tools that look at the packages together.
pub(super) fn source() -> String {
    let mut text = format!("Source: uncopy\nMaintainer: {}\n", maintainer());
    for package in [&PROGRAM, &FLEET, &LIBRARY, &DEVELOPMENT] {
        text.push_str(&format!("\nPackage: {}\nArchitecture: any\n", package.name));
    }
    text
}

impl Package {
    /// The control file, for an architecture and a size in KiB.
    pub(super) fn control(&self, architecture: &str, needed: &str, kibibytes: u64) -> String {
        let version = version();
        let mut text = format!("Package: {}\n", self.name);
        if self.name != PROGRAM.name {
            text.push_str(&format!("Source: {}\n", PROGRAM.name));
        }
        text.push_str(&format!(
            "Version: {version}\nArchitecture: {architecture}\nMaintainer: {}\n\
             Installed-Size: {kibibytes}\n",
            maintainer()
        ));
        let also_needs = self.also_needs.map(|other| format!("{other} (= {version})"));
        let needed = (!needed.is_empty()).then(|| needed.to_owned());
        let all: Vec<_> = also_needs.into_iter().chain(needed).collect();
        if !all.is_empty() {
            text.push_str(&format!("Depends: {}\n", all.join(", ")));
        }
        if let Some(recommended) = self.recommends {
            text.push_str(&format!("Recommends: {recommended}\n"));
        }
        if let Some(suggested) = self.suggests {
            text.push_str(&format!("Suggests: {suggested}\n"));
        }
        if self.is_multiarch {
            text.push_str("Multi-Arch: same\n");
        }
        text.push_str(&format!("Section: {}\nPriority: optional\n", self.section));
        text.push_str(&format!("Description: {}\n", self.summary));
        for line in self.description.lines() {
            text.push_str(&format!(" {line}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{DEVELOPMENT, FLEET, PROGRAM, version};

    #[test]
    fn control_files_name_what_is_needed() {
        let text = PROGRAM.control("amd64", "libc6 (>= 2.34)", 7);
        assert!(text.starts_with("Package: uncopy\nVersion: "), "{text}");
        assert!(text.contains("\nInstalled-Size: 7\nDepends: libc6 (>= 2.34)\n"), "{text}");
        assert!(text.contains("\n .\n Every copy gives"), "{text}");
        assert!(text.contains("\nSuggests: uncopy-fleet\n"), "{text}");
        let text = FLEET.control("amd64", "libc6 (>= 2.34)", 7);
        let needed = format!("\nDepends: uncopy (= {}), libc6 (>= 2.34)\n", version());
        assert!(text.contains(&needed), "{text}");
        let text = DEVELOPMENT.control("arm64", "", 7);
        let needed = format!("\nDepends: libuncopy-zx0 (= {})\n", version());
        assert!(text.contains(&needed), "{text}");
        assert!(text.contains("\nSource: uncopy\n"), "{text}");
    }

    #[test]
    fn lines_of_descriptions_are_short() {
        for package in [PROGRAM, FLEET, DEVELOPMENT, super::LIBRARY] {
            assert!(package.description.lines().all(|line| line.len() <= 79), "{}", package.name);
        }
    }
}
