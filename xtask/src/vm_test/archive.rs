//! Kernels of Debian's archive: found in its indices, fetched, and checked from the archive's signature down.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// Keys that sign the archive.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const DEBIAN: &str = "http://deb.debian.org/debian";
const SECURITY: &str = "http://deb.debian.org/debian-security";
/// Releases that have kernels. One that has left the archive is passed over.
const SUITES: [(&str, &str); 9] = [
    (DEBIAN, "bullseye"),
    (SECURITY, "bullseye-security"),
    (DEBIAN, "bookworm"),
    (SECURITY, "bookworm-security"),
    (DEBIAN, "bookworm-backports"),
    (DEBIAN, "trixie"),
    (SECURITY, "trixie-security"),
    (DEBIAN, "trixie-backports"),
    (DEBIAN, "sid"),
];
const INDEX: &str = "main/binary-amd64/Packages.xz";
/// Packages with less only depend on others.
const MIN_BYTES: u64 = 5 << 20;

/// Series of kernels, such as 6.12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Series {
    major: u32,
    minor: u32,
}

impl FromStr for Series {
    type Err = String;

    fn from_str(text: &str) -> Result<Series, String> {
        let parsed = || {
            let (major, minor) = text.split_once('.')?;
            Some(Series { major: major.parse().ok()?, minor: minor.parse().ok()? })
        };
        parsed().ok_or_else(|| format!("{text:?} is no series of kernels, such as 6.12"))
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Kernel in the archive: the newest one of its series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Release {
    /// Version of its packages, such as `5.10.262-1`.
    pub(super) version: String,
    /// Image and modules: one package, or two.
    packages: Vec<Package>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Package {
    url: String,
    sha256: String,
}

impl Package {
    /// Whether it has modules: all but images that have a package of modules beside them.
    fn has_modules(&self) -> bool {
        !self.url.contains("/linux-binary-")
    }
}

/// Returns the newest kernel of each series that the archive has now. Indices are kept in `directory`.
///
/// # Errors
/// The archive cannot be reached, or is not what its keys signed.
pub(super) fn releases(directory: &Path) -> Result<BTreeMap<Series, Release>> {
    std::fs::create_dir_all(directory)?;
    let mut found = Vec::new();
    for (archive, suite) in SUITES {
        if let Some(index) = index(directory, archive, suite)? {
            found.extend(images(archive, &index));
        }
    }
    ensure!(!found.is_empty(), "no release of {DEBIAN} could be had; look at the proxy of curl");
    Ok(newest(found))
}

/// Fetches the packages of a kernel into `directory`, and returns their paths.
///
/// # Errors
/// One cannot be had, or is not the one in the index.
pub(super) fn fetch(release: &Release, directory: &Path) -> Result<Vec<PathBuf>> {
    let fetched = |package: &Package| {
        let name = package.url.rsplit('/').next().unwrap_or("package");
        let path = directory.join(name);
        download(&package.url, &path)?;
        ensure!(
            sha256(&path)? == package.sha256,
            "{} is not the package that the index has; fetch it again later",
            package.url
        );
        Ok(path)
    };
    release.packages.iter().map(fetched).collect()
}

/// Returns the index of a release, checked by the signed hashes. `None`: there is no such release.
fn index(directory: &Path, archive: &str, suite: &str) -> Result<Option<String>> {
    let signed = directory.join(format!("{suite}.signed"));
    let release = directory.join(format!("{suite}.release"));
    let index = directory.join(format!("{suite}.xz"));
    if download(&format!("{archive}/dists/{suite}/InRelease"), &signed).is_err() {
        println!("{suite}: not in {archive}");
        return Ok(None);
    }
    let checked = Command::new("gpgv")
        .args(["--quiet", "--keyring", KEYRING, "--output"])
        .args([&release, &signed])
        .output()
        .context("cannot start gpgv; apt-get install gpgv debian-archive-keyring")?;
    ensure!(
        checked.status.success(),
        "{suite} is not signed by the keys in {KEYRING}: {}",
        String::from_utf8_lossy(&checked.stderr)
    );
    let listed = std::fs::read_to_string(&release)?;
    let expected = hash_of(&listed, INDEX).with_context(|| format!("{suite} has no {INDEX}"))?;
    if !index.exists() || sha256(&index)? != expected {
        download(&format!("{archive}/dists/{suite}/{INDEX}"), &index)?;
        ensure!(sha256(&index)? == expected, "the index of {suite} is not the one that was signed");
    }
    let output = Command::new("xz").arg("-dc").arg(&index).output().context("cannot start xz")?;
    ensure!(output.status.success(), "cannot unpack {}", index.display());
    Ok(Some(String::from_utf8(output.stdout)?))
}

/// Writes the file anew: one of that name may be half of another one.
fn download(url: &str, path: &Path) -> Result<()> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--location", "--retry", "2"]);
    workspace::run(curl.arg("--output").arg(path).arg(url))
}

fn sha256(path: &Path) -> Result<String> {
    let output = Command::new("sha256sum").arg(path).output().context("cannot start sha256sum")?;
    ensure!(output.status.success(), "cannot read {}", path.display());
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().next().unwrap_or_default().to_owned())
}

/// SHA-256 of a file in a Release file.
fn hash_of<'a>(release: &'a str, file: &str) -> Option<&'a str> {
    let lines = release.lines().skip_while(|line| *line != "SHA256:").skip(1);
    let mut lines = lines.take_while(|line| line.starts_with(' '));
    lines.find_map(|line| {
        let mut words = line.split_whitespace();
        let hash = words.next()?;
        (words.nth(1)? == file).then_some(hash)
    })
}

/// Version of the packages, and one of them.
type Image = (String, Package);

/// Packages with an image or modules of a kernel.
fn images(archive: &str, index: &str) -> Vec<Image> {
    let of_stanza = |stanza: &str| {
        let field = |name: &str| {
            stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        let is_large = field("Size")?.parse::<u64>().ok()? >= MIN_BYTES;
        if !is_large || !is_image(field("Package")?) {
            return None;
        }
        let url = format!("{archive}/{}", field("Filename")?);
        let sha256 = field("SHA256")?.to_owned();
        Some((field("Version")?.to_owned(), Package { url, sha256 }))
    };
    index.split("\n\n").filter_map(of_stanza).collect()
}

/// Whether the package has a generic kernel of Debian's for amd64, or its modules.
fn is_image(package: &str) -> bool {
    let kinds = ["linux-image-", "linux-binary-", "linux-modules-"];
    let Some(rest) = kinds.iter().find_map(|kind| package.strip_prefix(kind)) else {
        return false;
    };
    let Some(abi) = rest.strip_suffix("-amd64") else { return false };
    abi.starts_with(|first: char| first.is_ascii_digit())
        && !abi.contains("cloud")
        && !abi.contains("rt")
}

fn newest(images: Vec<Image>) -> BTreeMap<Series, Release> {
    let mut newest: BTreeMap<Series, Release> = BTreeMap::new();
    for (version, package) in images {
        let series = version.split('.').take(2).collect::<Vec<_>>().join(".");
        let Ok(series) = series.parse() else { continue };
        let release = newest
            .entry(series)
            .or_insert_with(|| Release { version: version.clone(), packages: Vec::new() });
        if release.version == version {
            // Two releases may have the same package.
            if !release.packages.contains(&package) {
                release.packages.push(package);
            }
        } else if numbers(&release.version) < numbers(&version) {
            *release = Release { version, packages: vec![package] };
        }
    }
    // A series that is leaving the archive may have its image without its modules.
    newest.retain(|_, release| release.packages.iter().any(Package::has_modules));
    newest
}

/// Numbers of a version, by which those of one series are ordered.
fn numbers(version: &str) -> Vec<u64> {
    let digits = version.split(|c: char| !c.is_ascii_digit());
    digits.filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, size: u64) -> String {
        format!(
            "Package: {name}\nVersion: {version}\nFilename: pool/{name}.deb\nSize: {size}\nSHA256: h-{name}\n"
        )
    }

    #[test]
    fn the_newest_kernel_of_each_series_is_found() {
        let large = 50 << 20;
        let index = [
            package("linux-image-5.10.0-9-amd64", "5.10.99-1", large),
            package("linux-image-5.10.0-46-amd64", "5.10.262-1", large),
            package("linux-image-5.10.0-43-amd64", "5.10.251-5", large),
            package("linux-image-5.10.0-46-cloud-amd64", "5.10.300-1", large),
            package("linux-image-5.10.0-46-rt-amd64", "5.10.300-1", large),
            package("linux-image-5.10.0-46-amd64-dbg", "5.10.300-1", large),
            package("linux-image-amd64", "5.10.300-1", large),
            package("linux-image-6.1-amd64", "6.1.999-1", 2000),
            package("linux-binary-6.19.14+deb13-amd64", "6.19.14-1", large),
            package("linux-image-6.19.14+deb13-amd64", "6.19.14-1", 2052),
            package("linux-modules-7.2.13+deb14-amd64", "7.2.13-1", large),
            package("linux-binary-7.2.13+deb14-amd64", "7.2.13-1", large),
            package("linux-image-7.2.13+deb14-amd64", "7.2.13-1", 1892),
        ]
        .join("\n");
        let found = newest(images("http://a", &index));
        let listed = found.iter().map(|(series, release)| {
            let urls = release.packages.iter().map(|package| package.url.as_str());
            (series.to_string(), release.version.as_str(), urls.collect::<Vec<_>>())
        });
        let expected = [
            (
                "5.10".to_owned(),
                "5.10.262-1",
                vec!["http://a/pool/linux-image-5.10.0-46-amd64.deb"],
            ),
            (
                "7.2".to_owned(),
                "7.2.13-1",
                vec![
                    "http://a/pool/linux-modules-7.2.13+deb14-amd64.deb",
                    "http://a/pool/linux-binary-7.2.13+deb14-amd64.deb",
                ],
            ),
        ];
        assert_eq!(listed.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn hashes_are_those_of_sha256() {
        let release = "Suite: a\nMD5Sum:\n aa 10 main/binary-amd64/Packages.xz\nSHA256:\n bb 9 main/other\n \
                       cc 10 main/binary-amd64/Packages.xz\nSHA512:\n dd 10 main/last\n";
        assert_eq!(hash_of(release, INDEX), Some("cc"));
        assert_eq!(hash_of(release, "main/last"), None);
    }

    #[test]
    fn a_series_has_two_numbers() {
        assert_eq!("6.12".parse::<Series>().unwrap().to_string(), "6.12");
        assert!("5.10".parse::<Series>().unwrap() < "6.1".parse().unwrap());
        for wrong in ["6", "6.", "six.1", "6.12.3"] {
            assert!(wrong.parse::<Series>().is_err(), "{wrong}");
        }
    }
}
