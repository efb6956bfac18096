//! Command lines of copies between machines.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::bare::{self, BareWay};

/// Which machine has the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// This one.
    Push,
    /// The other one.
    Pull,
}

impl Direction {
    pub(super) const BOTH: [Direction; 2] = [Direction::Push, Direction::Pull];

    pub(super) fn name(self) -> &'static str {
        match self {
            Direction::Push => "push",
            Direction::Pull => "pull",
        }
    }
}

/// The cipher of ssh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cipher {
    /// Its own choice.
    Default,
    /// `aes128-gcm@openssh.com`, which is quicker where processors have instructions for it.
    Aes128Gcm,
}

impl Cipher {
    /// Name of a program with it, in the rows.
    pub(super) fn subject(self, program: &str) -> String {
        match self {
            Cipher::Default => program.to_owned(),
            Cipher::Aes128Gcm => format!("{program}, aes128-gcm"),
        }
    }
}

/// Connection of the bytes of `uncopy cp` (`--data`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataMode {
    Ssh,
    Tls,
    Open,
}

impl DataMode {
    pub(super) const ALL: [DataMode; 3] = [DataMode::Ssh, DataMode::Tls, DataMode::Open];

    fn flag(self) -> &'static str {
        match self {
            DataMode::Ssh => "--data=ssh",
            DataMode::Tls => "--data=tls",
            DataMode::Open => "--data=open",
        }
    }

    /// Name in the rows.
    pub(super) fn subject(self) -> String {
        format!("uncopy {}", self.flag())
    }
}

/// How to log in to the other machine.
pub(super) struct Login {
    /// Configuration of the client of ssh.
    pub(super) config: PathBuf,
    pub(super) host: String,
}

impl Login {
    /// Words of the remote shell.
    pub(super) fn shell(&self, cipher: Cipher) -> Result<Vec<String>> {
        let mut words = vec!["ssh".to_owned(), "-F".to_owned(), text(&self.config)?.to_owned()];
        if let Cipher::Aes128Gcm = cipher {
            words.extend(["-c".to_owned(), "aes128-gcm@openssh.com".to_owned()]);
        }
        Ok(words)
    }

    /// The remote shell as one word.
    fn shell_line(&self, cipher: Cipher) -> Result<String> {
        let words = self.shell(cipher)?;
        Ok(shlex::try_join(words.iter().map(String::as_str))?)
    }
}

/// A file or tree that is copied into a directory, which is there.
pub(super) struct Transfer<'a> {
    pub(super) direction: Direction,
    pub(super) source: &'a Path,
    pub(super) directory: &'a Path,
}

impl Transfer<'_> {
    /// The operands of `cp` and its like.
    fn operands(&self, login: &Login) -> Result<[OsString; 2]> {
        let there = |path: &Path| -> Result<OsString> {
            Ok(format!("{}:{}", login.host, text(path)?).into())
        };
        Ok(match self.direction {
            Direction::Push => [self.source.into(), there(self.directory)?],
            Direction::Pull => [there(self.source)?, self.directory.into()],
        })
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8, which ssh needs", path.display()))
}

/// `scp -r`.
pub(super) fn scp(login: &Login, cipher: Cipher, transfer: &Transfer<'_>) -> Result<Vec<OsString>> {
    // It takes the same flags as ssh.
    let mut command = login.shell(cipher)?;
    "scp".clone_into(&mut command[0]);
    command.extend(["-q", "-r"].map(str::to_owned));
    let mut command: Vec<OsString> = command.into_iter().map(OsString::from).collect();
    command.extend(transfer.operands(login)?);
    Ok(command)
}

/// `rsync -r`.
pub(super) fn rsync(
    login: &Login,
    cipher: Cipher,
    transfer: &Transfer<'_>,
) -> Result<Vec<OsString>> {
    let mut command: Vec<OsString> = ["rsync", "-r", "-e"].map(OsString::from).into();
    command.push(login.shell_line(cipher)?.into());
    command.extend(transfer.operands(login)?);
    Ok(command)
}

/// `tar -c | ssh tar -x`.
pub(super) fn tar(login: &Login, cipher: Cipher, transfer: &Transfer<'_>) -> Result<Vec<OsString>> {
    let name = transfer.source.file_name().context("a source has a name")?;
    let above = transfer.source.parent().context("a source lies in a directory")?;
    let give = ["tar", "-C", text(above)?, "-cf", "-", text(Path::new(name))?];
    let take = ["tar", "-C", text(transfer.directory)?, "-xf", "-"];
    let (give, take) = (shlex::try_join(give)?, shlex::try_join(take)?);
    let there = |words: &str| -> Result<String> {
        let (shell, host) = (login.shell_line(cipher)?, &login.host);
        Ok(format!("{shell} {host} {}", shlex::try_quote(words)?))
    };
    let line = match transfer.direction {
        Direction::Push => format!("{give} | {}", there(&take)?),
        Direction::Pull => format!("{} | {take}", there(&give)?),
    };
    Ok(["sh", "-c", &line].map(OsString::from).into())
}

/// `uncopy cp -r`, of the same build on both machines.
pub(super) fn uncopy(
    login: &Login,
    program: &Path,
    data: DataMode,
    transfer: &Transfer<'_>,
) -> Result<Vec<OsString>> {
    let mut command = vec![program.into(), "cp".into(), "-r".into(), "-e".into()];
    command.push(login.shell_line(Cipher::Aes128Gcm)?.into());
    command.push("--remote-program".into());
    command.push(shlex::try_quote(text(program)?)?.into_owned().into());
    command.push(data.flag().into());
    command.extend(transfer.operands(login)?);
    Ok(command)
}

/// A bare loop of this program.
pub(super) fn bare(
    login: &Login,
    way: BareWay,
    connections: u8,
    transfer: &Transfer<'_>,
) -> Result<Vec<OsString>> {
    let name = transfer.source.file_name().context("a source has a name")?;
    let copy = transfer.directory.join(name);
    let shell = login.shell(Cipher::Aes128Gcm)?;
    let mut command = vec![std::env::current_exe()?.into()];
    command.extend(bare::arguments(
        way,
        connections,
        transfer.direction,
        &login.host,
        transfer.source,
        &copy,
        shell,
    ));
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> Login {
        Login { config: "/c d/config".into(), host: "10.11.0.2".into() }
    }

    fn transfer(direction: Direction) -> Transfer<'static> {
        Transfer { direction, source: Path::new("/s/tree"), directory: Path::new("/d") }
    }

    #[test]
    fn the_other_machine_has_the_destination_or_the_source() {
        let push = scp(&login(), Cipher::Default, &transfer(Direction::Push)).unwrap();
        assert_eq!(push, ["scp", "-F", "/c d/config", "-q", "-r", "/s/tree", "10.11.0.2:/d"]);
        let pull = rsync(&login(), Cipher::Aes128Gcm, &transfer(Direction::Pull)).unwrap();
        let shell = "ssh -F '/c d/config' -c aes128-gcm@openssh.com";
        assert_eq!(pull, ["rsync", "-r", "-e", shell, "10.11.0.2:/s/tree", "/d"]);
    }

    #[test]
    fn tar_runs_on_both_machines() {
        let push = tar(&login(), Cipher::Default, &transfer(Direction::Push)).unwrap();
        let expected = "tar -C /s -cf - tree | ssh -F '/c d/config' 10.11.0.2 'tar -C /d -xf -'";
        assert_eq!(push[2], expected);
        let pull = tar(&login(), Cipher::Default, &transfer(Direction::Pull)).unwrap();
        let expected = "ssh -F '/c d/config' 10.11.0.2 'tar -C /s -cf - tree' | tar -C /d -xf -";
        assert_eq!(pull[2], expected);
    }

    #[test]
    fn uncopy_gets_its_way_and_the_program_there() {
        let (program, open) = (Path::new("/a b/uncopy"), DataMode::Open);
        let command = uncopy(&login(), program, open, &transfer(Direction::Push)).unwrap();
        let expected =
            ["--remote-program", "'/a b/uncopy'", "--data=open", "/s/tree", "10.11.0.2:/d"];
        assert_eq!(command[5..], expected);
    }
}
