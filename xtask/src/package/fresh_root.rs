//! Fresh roots of Debian, in which packages are installed and used as by somebody who has nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{build, emptied};
use crate::workspace;

/// Packages that compile a C program and show manual pages.
const PACKAGES: &str = "gcc,libc6-dev,pkg-config,man-db,bash-completion";

/// Uses the program that is installed.
const USE: &str = r#"
cd "$(mktemp -d)"
uncopy --version
head -c 3000001 /dev/urandom > a
uncopy cp -v --durable --verify a b
cmp a b
mkdir -p tree/d && cp a tree/d/x && ln tree/d/x tree/y && ln -s d tree/z
uncopy cp -r --preserve=all tree tree2
diff -r --no-dereference tree tree2
uncopy verify tree tree2
seq 100000 > text
uncopy cp --compress=zstd text z
uncopy cp --decompress z zz
cmp text zz
uncopy capabilities .
uncopy doctor a b || test $? -lt 64
"#;

/// Installs packages of Debian, uses them, and removes them again.
///
/// # Errors
/// If lintian finds an error, or one of these fails; what was said stands above.
pub(super) fn try_deb(packages: &[PathBuf]) -> Result<()> {
    lint(packages)?;
    let root = fresh()?;
    bring(packages, &root)?;
    let sources = workspace::root().join("crates/uncopy-zx/tests/c");
    std::fs::create_dir(root.join("c"))?;
    for entry in std::fs::read_dir(&sources)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), root.join("c").join(entry.file_name()))?;
        }
    }
    in_root(
        &root,
        &format!(
            "dpkg --install /packages/*.deb\n{USE}\n\
             man -w uncopy uncopy-cp\n\
             bash -c '. /usr/share/bash-completion/completions/uncopy; complete -p uncopy'\n\
             test -s /usr/share/doc/uncopy/docs/json.md\n\
             cc -std=gnu11 /c/channel.c -o /tmp/c $(pkg-config --cflags --libs uncopy-zx)\n\
             /tmp/c >/dev/null\n\
             cc -std=gnu11 /c/channel.c -o /tmp/c -static-libgcc $(pkg-config --cflags uncopy-zx) \
                 -l:libuncopy_zx.a $(pkg-config --libs --static uncopy-zx | sed s/-luncopy_zx//)\n\
             /tmp/c >/dev/null\n\
             dpkg --verify uncopy libuncopy-zx0 libuncopy-zx-dev\n\
             dpkg --purge uncopy libuncopy-zx-dev libuncopy-zx0\n\
             test ! -e /usr/bin/uncopy\n"
        ),
    )
}

/// Installs the package of `uncopy-fleet` with that of the program, which lies beside it, and starts it.
///
/// # Errors
/// As [`try_deb`]; or the package of the program is not there.
pub(super) fn try_fleet(packages: &[PathBuf]) -> Result<()> {
    lint(packages)?;
    let fleet = packages.first().context("there is no package")?;
    let name = fleet.file_name().unwrap_or_default().to_string_lossy();
    let program = fleet.with_file_name(name.replacen("uncopy-fleet_", "uncopy_", 1));
    ensure!(program.exists(), "{} is not there: build deb as well", program.display());
    let root = fresh()?;
    bring(&[program, fleet.clone()], &root)?;
    in_root(
        &root,
        "dpkg --install /packages/*.deb\n\
         uncopy-fleet --version\n\
         uncopy fleet --help\n\
         man -w uncopy-fleet uncopy-fleet-slurm\n\
         bash -c '. /usr/share/bash-completion/completions/uncopy-fleet; complete -p uncopy-fleet'\n\
         dpkg --verify uncopy-fleet\n\
         dpkg --purge uncopy-fleet\n\
         if uncopy fleet --help; then exit 1; fi\n",
    )
}

/// Has lintian look at packages.
fn lint(packages: &[PathBuf]) -> Result<()> {
    let mut lintian = Command::new(build::tool("lintian", "lintian")?);
    lintian.args(["--fail-on", "error", "--tag-display-limit", "0", "--allow-root"]).args(packages);
    if std::env::var_os("DEBEMAIL").is_none() {
        // Nobody has said who answers for the packages.
        lintian.args(["--suppress-tags", "bogus-mail-host,bogus-mail-host-in-debian-changelog"]);
    }
    workspace::run(&mut lintian)
}

/// Copies packages into a root.
fn bring(packages: &[PathBuf], root: &Path) -> Result<()> {
    let inside = root.join("packages");
    std::fs::create_dir(&inside)?;
    for package in packages {
        std::fs::copy(package, inside.join(package.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Unpacks the archive for this machine's architecture, and uses the program in it; the others where an emulator is
/// (`qemu-user`).
///
/// # Errors
/// If something fails; what was said stands above.
pub(super) fn try_static(packages: &[PathBuf]) -> Result<()> {
    let name = format!("-{}-linux.tar.gz", std::env::consts::ARCH);
    let is_ours = |path: &&PathBuf| path.display().to_string().ends_with(&name);
    let archive = packages.iter().find(is_ours);
    let archive = archive.context("no archive is for this machine's architecture")?;
    let root = fresh()?;
    std::fs::copy(archive, root.join("archive.tar.gz"))?;
    let unpack = "tar -C /opt -xzf /archive.tar.gz\nexport PATH=$(echo /opt/uncopy-*):$PATH";
    in_root(&root, &format!("{unpack}\n{USE}"))?;
    packages.iter().filter(|path| !is_ours(path)).try_for_each(|archive| try_emulated(archive))
}

/// Uses the program in an archive for another architecture, in an emulator and on this machine's files.
fn try_emulated(archive: &Path) -> Result<()> {
    let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.trim_end_matches(".tar.gz");
    let architecture = name.rsplit('-').nth(1).context("a name without an architecture")?;
    let Some(emulator) = workspace::find_program(&format!("qemu-{architecture}")) else {
        println!("{name} is not tried out without qemu-{architecture}: apt install qemu-user");
        return Ok(());
    };
    let directory = workspace::target_directory().join("package-root/emulated");
    emptied(&directory)?;
    let mut unpack = Command::new("tar");
    workspace::run(unpack.arg("-xzf").arg(archive).arg("-C").arg(&directory))?;
    let script = format!("emulated=(\"$@\")\nuncopy() {{ \"${{emulated[@]}}\" \"$@\"; }}\n{USE}");
    let mut bash = Command::new("bash");
    bash.args(["-exc", &script, "bash"]).arg(emulator).arg(directory.join(name).join("uncopy"));
    workspace::run(bash.env("TMPDIR", &directory))
}

/// A root of this machine's own release, in which nothing has been installed yet.
fn fresh() -> Result<PathBuf> {
    let debootstrap = build::tool("debootstrap", "debootstrap")?;
    let directory = workspace::target_directory().join("package-root");
    let (pristine, root) = (directory.join("pristine"), directory.join("root"));
    if !pristine.exists() {
        let unfinished = directory.join("unfinished");
        emptied(&unfinished)?;
        let mut command = Command::new(debootstrap);
        command.args(["--variant=minbase", &format!("--include={PACKAGES}")]);
        let mut quiet = command.arg(release()?).arg(&unfinished);
        quiet = quiet.stdout(std::process::Stdio::null());
        workspace::run(quiet)?;
        std::fs::rename(&unfinished, &pristine)?;
    }
    emptied(&root)?;
    let mut copy = Command::new("cp");
    workspace::run(copy.args(["-a", "--reflink=auto"]).arg(pristine.join(".")).arg(&root))?;
    Ok(root)
}

/// Name of the release of Debian that this machine runs.
fn release() -> Result<String> {
    let text = std::fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Ok(name.context("/etc/os-release names no release of Debian")?.to_owned())
}

/// Runs a script in a root, with `/proc` and `/sys`, in namespaces that end with it.
fn in_root(root: &Path, script: &str) -> Result<()> {
    let mounts = "mount -t proc proc \"$1/proc\"; mount --rbind /sys \"$1/sys\"; \
        mount --rbind /dev \"$1/dev\"; exec chroot \"$1\" /bin/bash -exc \"$2\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--", "sh", "-ec", mounts, "sh"]);
    let status = command.arg(root).arg(script).env_clear();
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let status = status.env("PATH", path).env("HOME", "/root").env("LC_ALL", "C.UTF-8").status();
    let status = status.context("cannot start unshare (util-linux)")?;
    ensure!(status.success(), "what was installed into {} fails: see above", root.display());
    Ok(())
}
