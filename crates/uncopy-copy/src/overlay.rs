//! Finds the device below an overlay filesystem.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::mounts::unescaped;
use uncopy_os::capabilities::Device;

/// The device of the upper directory, where what is written to an overlay lands. `None`: the path lies
/// on none, or that directory cannot be seen from here.
pub(super) fn device_below(path: &Path) -> Option<Device> {
    let path = fs::canonicalize(path).ok()?;
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    let mounts = String::from_utf8_lossy(&mounts);
    let number = fs::metadata(upper_in(&mounts, &path)?).ok()?.dev();
    let device = Device::with_number(libc::major(number), libc::minor(number));
    (!device.name.is_empty()).then_some(device)
}

/// The upper directory of the overlay on which a path lies (`proc_pid_mountinfo(5)`).
fn upper_in(mounts: &str, path: &Path) -> Option<PathBuf> {
    let mut found: Option<(PathBuf, Option<PathBuf>)> = None;
    for line in mounts.lines() {
        let (first, second) = line.split_once(" - ")?;
        let point = PathBuf::from(unescaped(first.split(' ').nth(4)?.as_bytes()));
        let mut words = second.split(' ');
        let is_overlay = words.next()? == "overlay";
        let options = words.nth(1).unwrap_or_default();
        let upper = options.split(',').find_map(|option| option.strip_prefix("upperdir="));
        // With several on one directory the last one is visible.
        let is_nearer = found.as_ref().is_none_or(|(known, _)| point.starts_with(known));
        if path.starts_with(&point) && is_nearer {
            found = Some((
                point,
                upper.filter(|_| is_overlay).map(|upper| unescaped(upper.as_bytes()).into()),
            ));
        }
    }
    found?.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_directory_of_an_overlay_is_found() {
        let mounts = r"21 1 254:1 / / rw - ext4 /dev/vda1 rw
30 21 0:30 / /merged rw shared:5 - overlay overlay rw,lowerdir=/low,upperdir=/up\040per/b,workdir=/w
31 30 0:31 / /merged/tmp rw - tmpfs tmpfs rw
32 21 0:32 / /read ro - overlay overlay ro,lowerdir=/a:/b
";
        for (path, expected) in [
            ("/merged/a/b", Some("/up per/b")),
            ("/merged", Some("/up per/b")),
            ("/merged/tmp/a", None),
            ("/mergedto/a", None),
            ("/read/a", None),
            ("/a", None),
        ] {
            let found = upper_in(mounts, Path::new(path));
            assert_eq!(found, expected.map(PathBuf::from), "{path}");
        }
        assert_eq!(upper_in("nonsense", Path::new("/a")), None);
    }
}
