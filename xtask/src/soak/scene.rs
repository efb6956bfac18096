//! A source, a destination, and what may be found after something went wrong.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testbed::seeded;

/// Length of a source: a copy of it takes long enough to be hit in the middle.
pub(super) const SOURCE_BYTES: u64 = 48 << 20;

/// Another length, so that no mixture can pass for either file.
const OLD_BYTES: u64 = 30 << 20;

/// The state in which the destination was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DestinationContents {
    Old,
    New,
}

/// Files of one folder.
pub(super) struct Scene {
    pub(super) source: PathBuf,
    pub(super) destination: PathBuf,
    folder: PathBuf,
    existing: bool,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Scene {
    /// Makes the source in `root`, and a folder for the destination.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(super) fn new(root: &Path, existing: bool, source_bytes: u64) -> Result<Scene> {
        let folder = root.join("scene");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let source = root.join("source");
        let new = seeded(1, 0, source_bytes);
        fs::write(&source, &new).with_context(|| format!("cannot write {}", source.display()))?;
        // It has to outlast power cuts.
        fs::File::open(&source)?.sync_all()?;
        fs::File::open(root)?.sync_all()?;
        let destination = folder.join("destination");
        let old = seeded(2, 0, OLD_BYTES);
        Ok(Scene { source, destination, folder, existing, old, new })
    }

    /// Puts the old file back, or nothing where there is to be none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn reset(&self) -> Result<()> {
        match fs::remove_file(&self.destination) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).context("cannot remove the destination");
            }
            _ => {}
        }
        if self.existing {
            fs::write(&self.destination, &self.old).context("cannot write the old file")?;
            fs::File::open(&self.destination)?.sync_all()?;
        }
        fs::File::open(&self.folder)?.sync_all().context("cannot flush the folder")
    }

    /// `uncopy cp FLAGS SRC DST`.
    pub(super) fn command(&self, uncopy: &Path, flags: &[&str]) -> Command {
        let mut command = Command::new(uncopy);
        command.arg("cp").args(flags).args([&self.source, &self.destination]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn run(&self, uncopy: &Path, flags: &[&str]) -> Result<Output> {
        let mut command = self.command(uncopy, flags);
        command.stderr(Stdio::piped()).output().context("cannot start uncopy")
    }

    /// How long a run takes, from when it was started.
    ///
    /// # Errors
    /// If it fails.
    pub(super) fn duration_of_a_run(&self, uncopy: &Path, flags: &[&str]) -> Result<Duration> {
        self.reset()?;
        let mut child = self.command(uncopy, flags).spawn().context("cannot start uncopy")?;
        let begin = Instant::now();
        let status = child.wait()?;
        ensure!(status.success(), "uncopy cp {}: {status}", flags.join(" "));
        Ok(begin.elapsed())
    }

    /// The state of the destination.
    ///
    /// # Errors
    /// If it is neither the old file nor the new one, from the first byte to the last.
    pub(super) fn found(&self) -> Result<DestinationContents> {
        let bytes = match fs::read(&self.destination) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.existing => {
                return Ok(DestinationContents::Old);
            }
            Err(error) => return Err(error).context("the destination cannot be read"),
        };
        if bytes == self.new {
            return Ok(DestinationContents::New);
        }
        if self.existing && bytes == self.old {
            return Ok(DestinationContents::Old);
        }
        let from_new = bytes.iter().zip(&self.new).take_while(|(a, b)| a == b).count();
        bail!("the destination has {} bytes, {from_new} of them like the new file", bytes.len())
    }

    /// Names in the folder beside the destination.
    ///
    /// # Errors
    /// If there are more than one, or one that is not recognisably uncopy's.
    pub(super) fn leftovers(&self) -> Result<Vec<String>> {
        let entries = fs::read_dir(&self.folder)?;
        let names: io::Result<Vec<String>> = entries
            .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
            .collect();
        let mut names = names?;
        names.retain(|name| name != "destination");
        ensure!(names.len() <= 1, "{} temporary files are left: {names:?}", names.len());
        for name in &names {
            let known = name.starts_with(".uncopy-") && name.ends_with(".tmp");
            ensure!(known, "nobody can know whose {name} is");
        }
        Ok(names)
    }

    /// Copies to the end, and looks whether leftovers of a killed run are reported. It had its temporary name
    /// between two calls, which no record notes, so that it stays; here it is removed.
    ///
    /// # Errors
    /// If it fails, or something is left that it does not name.
    pub(super) fn recover(&self, uncopy: &Path) -> Result<()> {
        let output = self.run(uncopy, &[])?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the next run: {}: {said}", output.status);
        ensure!(
            self.found()? == DestinationContents::New,
            "the next run succeeded and copied nothing"
        );
        for left in self.leftovers()? {
            ensure!(
                said.contains(&left),
                "the next run neither removed {left} nor named it: {said}"
            );
            fs::remove_file(self.folder.join(left)).context("cannot remove what was left")?;
        }
        Ok(())
    }
}

/// Random choices that can be repeated: splitmix64.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Another order: Fisher and Yates.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, (self.fraction() * (last + 1) as f64) as usize);
        }
    }

    /// One of these.
    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.fraction() * of.len() as f64) as usize]
    }

    /// At least 0 and below 1.
    pub(super) fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((word ^ (word >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(existing: bool) -> (tempfile::TempDir, Scene) {
        let directory = tempfile::tempdir().unwrap();
        let scene = Scene::new(directory.path(), existing, 1 << 20).unwrap();
        scene.reset().unwrap();
        (directory, scene)
    }

    #[test]
    fn old_and_new_are_distinguished_from_mixtures() {
        let (_directory, scene) = scene(true);
        assert_eq!(scene.found().unwrap(), DestinationContents::Old);
        fs::copy(&scene.source, &scene.destination).unwrap();
        assert_eq!(scene.found().unwrap(), DestinationContents::New);
        let mut mixture = scene.old.clone();
        mixture[..100].copy_from_slice(&scene.new[..100]);
        fs::write(&scene.destination, mixture).unwrap();
        assert!(scene.found().is_err());
        fs::write(&scene.destination, b"").unwrap();
        assert!(scene.found().is_err());
        fs::remove_file(&scene.destination).unwrap();
        assert!(scene.found().is_err(), "an existing destination must not go");
    }

    #[test]
    fn a_new_destination_may_be_absent_but_not_short() {
        let (_directory, scene) = scene(false);
        assert_eq!(scene.found().unwrap(), DestinationContents::Old);
        fs::write(&scene.destination, &scene.new[..500]).unwrap();
        assert!(scene.found().is_err());
    }

    #[test]
    fn one_recognisable_leftover_is_allowed() {
        let (_directory, scene) = scene(true);
        assert!(scene.leftovers().unwrap().is_empty());
        fs::write(scene.folder.join(".uncopy-1-2.tmp"), b"").unwrap();
        assert_eq!(scene.leftovers().unwrap().len(), 1);
        fs::write(scene.folder.join(".uncopy-1-3.tmp"), b"").unwrap();
        assert!(scene.leftovers().is_err());
        fs::remove_file(scene.folder.join(".uncopy-1-3.tmp")).unwrap();
        fs::rename(scene.folder.join(".uncopy-1-2.tmp"), scene.folder.join("x")).unwrap();
        assert!(scene.leftovers().is_err());
    }
}
