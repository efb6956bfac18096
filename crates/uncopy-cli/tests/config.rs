//! Lasting settings: the file, the environment and the flags, as people and programs meet them.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A home with a file to copy.
struct Home(TempDir);

impl Home {
    fn new() -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        fs::write(home.path("a"), "bytes\n").unwrap();
        home
    }

    /// With this text in the usual place.
    fn with(text: &str) -> Home {
        let home = Home::new();
        fs::create_dir_all(home.path(".config/uncopy")).unwrap();
        fs::write(home.usual(), text).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn usual(&self) -> PathBuf {
        self.path(".config/uncopy/config.toml")
    }

    /// The program, in this home and with nothing else in its environment.
    fn uncopy(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uncopy"));
        command.args(words.split_whitespace()).current_dir(self.0.path());
        command.env_clear().env("HOME", self.0.path());
        // Where an instrumented program counts.
        let profile = "LLVM_PROFILE_FILE";
        command.envs(std::env::var_os(profile).map(|file| (profile, file)));
        command
    }

    /// Returns the line of `config show` for each setting: `KEY VALUE ORIGIN`.
    #[track_caller]
    fn shown(&self, command: &mut Command) -> Vec<String> {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let lines = String::from_utf8(output.stdout).unwrap();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        lines.lines().map(words).collect()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The one JSON object that the program prints.
#[track_caller]
fn json(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The message of a run that touched nothing.
#[track_caller]
fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    stderr(&output)
}

fn each_value_is_shown_with_its_origin() {
    let home =
        Home::with("# mine\njobs = 2\nverify = \"sha256\"\npreserve = [\"mode\", \"acl\"]\n");
    let mut show = home.uncopy("config show");
    let file = home.usual().display().to_string();
    let lines = home.shown(show.env("UNCOPY_JOBS", "7").env("UNCOPY_RETRIES", "0"));
    assert_eq!(lines.len(), 26, "{lines:?}");
    for line in [
        format!("verify sha256 {file}, line 3"),
        format!("preserve mode,acl {file}, line 4"),
        String::from("jobs 7 UNCOPY_JOBS in the environment"),
        String::from("retries 0 UNCOPY_RETRIES in the environment"),
        String::from("durable false built in"),
        String::from("links preserve built in"),
    ] {
        assert!(lines.contains(&line), "{line}: {lines:?}");
    }
}

fn json_says_the_same() {
    let home = Home::with("\njobs = 2\n");
    let said = json(home.uncopy("config show --json").env("UNCOPY_CACHE", "skip"));
    assert_eq!(said["schema"], 1);
    assert_eq!(said["file"], home.usual().to_str().unwrap());
    let setting = |key: &str| {
        let settings = said["settings"].as_array().unwrap();
        settings.iter().find(|setting| setting["key"] == key).unwrap().clone()
    };
    assert_eq!(
        setting("jobs"),
        serde_json::json!({
            "key": "jobs", "value": "2", "origin": "file", "file": said["file"], "line": 2,
            "variable": null,
        })
    );
    assert_eq!(setting("cache")["origin"], "variable");
    assert_eq!(setting("cache")["variable"], "UNCOPY_CACHE");
    assert_eq!(setting("links")["origin"], "built_in");
    let nothing = json(Home::new().uncopy("config show --json").env_remove("HOME"));
    assert_eq!(nothing["file"], Value::Null);
    assert_eq!(nothing["unread"], serde_json::json!([]));
}

fn a_copy_obeys_the_file_then_the_variable_then_the_flag() {
    let home = Home::with("verify = 'sha256'\ndurable = true\nmethod = 'no-zero-copy'\n");
    let copied = |words: &str, variable: &str| {
        let words = format!("cp --json {words} a b");
        json(home.uncopy(&words).env("UNCOPY_VERIFY", variable))
    };
    let by_file = copied("", "");
    assert_eq!(by_file["algorithm"], "sha256");
    assert_eq!(by_file["durable"], true);
    assert_eq!(by_file["mechanisms"][0]["name"], "read_write");
    assert_eq!(copied("", "xxh3")["algorithm"], "xxh3");
    assert_eq!(copied("", "none")["verified"], false);
    assert_eq!(copied("--verify=blake3", "xxh3")["algorithm"], "blake3");
    let by_flag = copied("--no-verify --no-durable --method=sendfile", "xxh3");
    assert_eq!(by_flag["verified"], false);
    assert_eq!(by_flag["durable"], false);
    assert_eq!(by_flag["mechanisms"][0]["name"], "sendfile");
}

fn settings_for_trees_reach_trees_and_leave_single_files_alone() {
    let home = Home::with("links = 'skip'\njobs = 1\nretries = 0\non-error = 'abort'\n");
    fs::create_dir(home.path("tree")).unwrap();
    std::os::unix::fs::symlink("nowhere", home.path("tree/link")).unwrap();
    assert!(home.uncopy("cp -r tree skipped").status().unwrap().success());
    assert!(home.path("skipped").is_dir());
    assert!(home.path("skipped/link").symlink_metadata().is_err());
    assert!(home.uncopy("cp -r --links=preserve tree kept").status().unwrap().success());
    assert_eq!(fs::read_link(home.path("kept/link")).unwrap(), PathBuf::from("nowhere"));
    assert!(home.uncopy("cp a b").status().unwrap().success());
}

fn the_file_is_named_by_flag_then_variable_then_base_directory() {
    let home = Home::with("jobs = 1\n");
    fs::create_dir_all(home.path("xdg/uncopy")).unwrap();
    for (name, jobs) in [("xdg/uncopy/config.toml", 2), ("variable.toml", 3), ("flag.toml", 4)] {
        fs::write(home.path(name), format!("jobs = {jobs}\n")).unwrap();
    }
    let jobs = |command: &mut Command| {
        let lines = home.shown(command);
        lines
            .iter()
            .find(|line| line.starts_with("jobs"))
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .to_owned()
    };
    assert_eq!(jobs(&mut home.uncopy("config show")), "1");
    let xdg = home.path("xdg");
    assert_eq!(jobs(home.uncopy("config show").env("XDG_CONFIG_HOME", &xdg)), "2");
    let variable = |words: &str| {
        let mut command = home.uncopy(words);
        command.env("XDG_CONFIG_HOME", &xdg).env("UNCOPY_CONFIG", "variable.toml");
        command
    };
    assert_eq!(jobs(&mut variable("config show")), "3");
    assert_eq!(jobs(&mut variable("config show --config flag.toml")), "4");
    fs::write(home.path("flag.toml"), "verify = 'xxh3'\n").unwrap();
    let copied = json(&mut variable("cp --json --config flag.toml a b"));
    assert_eq!(copied["algorithm"], "xxh3");
}

fn what_makes_no_sense_names_file_line_and_next_step_and_nothing_is_copied() {
    for (text, says) in [
        ("\nverfy = 'blake3'\n", "line 2: there is no setting \"verfy\"; did you mean \"verify\"?"),
        ("jobs = 0\n", "line 1: jobs is 0; set it to auto, or a number of workers from 1"),
        ("jobs = 1\n[", "line 2: "),
    ] {
        let home = Home::with(text);
        for words in ["cp a b", "config show"] {
            let message = refused(&mut home.uncopy(words));
            let says = format!("{}, {says}", home.usual().display());
            assert!(message.contains(&says), "{words}: {message}");
        }
        assert!(!home.path("b").exists());
    }
}

fn a_file_that_cannot_be_read_is_named() {
    let home = Home::with("");
    fs::create_dir(home.path("directory")).unwrap();
    for (words, says) in [
        ("cp --config missing a b", "file missing: No such file or directory"),
        ("cp --config directory a b", "file directory: Is a directory"),
        ("cp --config /dev/zero a b", "file /dev/zero: it is larger than 1 MiB"),
    ] {
        let message = refused(&mut home.uncopy(words));
        assert!(message.contains(says) && message.contains("with --config"), "{message}");
    }
    assert!(!home.path("b").exists());
}

/// The words of one warning: that `file` could not be read, and why.
#[track_caller]
fn assert_warned(output: &Output, file: &std::path::Path, why: &str) {
    let said = stderr(output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let expected = format!("uncopy: warning: cannot read {}: {why}", file.display());
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.contains("--config"), "no next step: {said}");
}

fn a_usual_file_that_may_not_be_read_is_one_warning_and_no_end() {
    type Make = fn(&std::path::Path);
    let rows: [(Make, &str); 2] = [
        (|path| fs::create_dir(path).unwrap(), "Is a directory (EISDIR)"),
        (
            |path| std::os::unix::fs::symlink(path, path).unwrap(),
            "Too many levels of symbolic links (ELOOP)",
        ),
    ];
    for (make, why) in rows {
        for name in ["config.toml", "tuned.toml"] {
            let home = Home::with("");
            fs::remove_file(home.usual()).unwrap();
            let file = home.path(".config/uncopy").join(name);
            make(&file);
            for words in [
                "cp a b",
                "cp -v a b",
                "cp --quiet a b",
                "cp --json a b",
                "cp -rq a copy",
                "-s a -d b",
                "config show",
            ] {
                let _ = fs::remove_file(home.path("b"));
                assert_warned(&home.uncopy(words).output().unwrap(), &file, why);
                assert_eq!(home.path("b").exists(), words.ends_with('b'), "{words}");
            }
            let shown = home.uncopy("config show --json").output().unwrap();
            assert_warned(&shown, &file, why);
            let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
            assert_eq!(shown["file"], Value::Null, "{shown}");
            let unread = &shown["unread"][0];
            assert_eq!(unread["file"], file.to_str().unwrap(), "{shown}");
            assert!(why.contains(unread["errno_name"].as_str().unwrap()), "{shown}");
            let doctor = home.uncopy("doctor a b").output().unwrap();
            let warnings = stderr(&doctor).matches("warning: cannot read").count();
            assert_eq!(warnings, 1, "{}", stderr(&doctor));
            // A file that is named must be readable.
            let named = format!("cp --config {} a b", file.display());
            assert!(refused(&mut home.uncopy(&named)).contains(why));
            assert!(refused(home.uncopy("cp a b").env("UNCOPY_CONFIG", &file)).contains(why));
        }
    }
}

fn two_usual_files_that_may_not_be_read_are_one_warning() {
    let home = Home::with("");
    fs::remove_file(home.usual()).unwrap();
    let tuned = home.path(".config/uncopy/tuned.toml");
    for file in [&home.usual(), &tuned] {
        fs::create_dir(file).unwrap();
    }
    let output = home.uncopy("cp a b").output().unwrap();
    assert_warned(&output, &home.usual(), "Is a directory (EISDIR)");
    assert!(stderr(&output).contains(tuned.to_str().unwrap()), "{}", stderr(&output));
    // Variables and what is named hold all the same.
    fs::write(home.path("mine"), "verify = 'xxh3'\n").unwrap();
    let output = home.uncopy("cp --json --config mine a b").output().unwrap();
    assert_warned(&output, &tuned, "Is a directory (EISDIR)");
    let copied: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(copied["algorithm"], "xxh3");
}

fn where_nothing_can_be_nothing_is_said() {
    let home = Home::new();
    fs::write(home.path(".config"), "a file").unwrap();
    for home_variable in [home.path(""), home.path("a"), home.path("missing")] {
        let output = home.uncopy("cp a b").env("HOME", home_variable).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    }
}

fn a_contradiction_names_the_settings_it_may_come_from() {
    let home = Home::with("method = 'direct'\ncache = 'keep'\n");
    let message = refused(&mut home.uncopy("cp a b"));
    let says = format!("method = direct ({}, line 1)", home.usual().display());
    assert!(message.contains(&says), "{message}");
    assert!(!home.path("b").exists());
}

/// Also in a build that cannot compress, where a copy says so.
fn compression_is_a_setting_as_it_is_a_flag() {
    let home = Home::with("compress = 'zstd:19'\n");
    fs::write(home.path("a"), "bytes\n".repeat(20_000)).unwrap();
    let lines = home.shown(home.uncopy("config show").env("UNCOPY_DECOMPRESS", "false"));
    let file = format!("compress zstd:19 {}, line 1", home.usual().display());
    assert!(lines.contains(&file), "{lines:?}");
    let variable = String::from("decompress false UNCOPY_DECOMPRESS in the environment");
    assert!(lines.contains(&variable), "{lines:?}");
    if cfg!(feature = "compress") {
        let copied = json(&mut home.uncopy("cp --json a b"));
        assert_eq!(copied["compression"]["level"], 19, "{copied}");
        let copied = json(home.uncopy("cp --json a b").env("UNCOPY_COMPRESS", "zstd"));
        assert_eq!(copied["compression"]["level"], 3, "{copied}");
        let copied = json(&mut home.uncopy("cp --json --decompress b c"));
        assert_eq!(copied["compression"]["action"], "decompressed", "{copied}");
        let both = refused(home.uncopy("cp b d").env("UNCOPY_DECOMPRESS", "true"));
        assert!(both.contains("--compress contradicts --decompress"), "{both}");
        assert!(both.contains("UNCOPY_DECOMPRESS in the environment"), "{both}");
    } else {
        let message = refused(&mut home.uncopy("cp a b"));
        assert!(message.contains("feature `compress`"), "{message}");
        assert!(message.contains("compress = zstd:19 ("), "{message}");
    }
    let copied = json(&mut home.uncopy("cp --json --no-compress a e"));
    assert_eq!(copied["compression"], Value::Null, "{copied}");
    let message = refused(home.uncopy("cp a f").env("UNCOPY_COMPRESS", "zstd:23"));
    assert!(message.contains("a level from 1 to 22"), "{message}");
}

fn the_doctor_names_the_line_that_asks_for_verification() {
    let home = Home::with("\nverify = 'blake3'\n");
    let output = home.uncopy("doctor --json a b").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["id"] == "verification").unwrap();
    let expected = format!("{}, line 2", home.usual().display());
    assert_eq!(finding["evidence"][0]["found"], expected);
}

pub(crate) fn cases() -> Vec<testbed::Case> {
    testbed::cases![
        [] each_value_is_shown_with_its_origin,
        [] json_says_the_same,
        [] a_copy_obeys_the_file_then_the_variable_then_the_flag,
        [] settings_for_trees_reach_trees_and_leave_single_files_alone,
        [] the_file_is_named_by_flag_then_variable_then_base_directory,
        [] what_makes_no_sense_names_file_line_and_next_step_and_nothing_is_copied,
        [] a_file_that_cannot_be_read_is_named,
        [] a_usual_file_that_may_not_be_read_is_one_warning_and_no_end,
        [] two_usual_files_that_may_not_be_read_are_one_warning,
        [] where_nothing_can_be_nothing_is_said,
        [] a_contradiction_names_the_settings_it_may_come_from,
        [] compression_is_a_setting_as_it_is_a_flag,
        [] the_doctor_names_the_line_that_asks_for_verification,
    ]
}
