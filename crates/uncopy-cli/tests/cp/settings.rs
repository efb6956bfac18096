//! Settings of a user who is not the one that runs the program.

use std::os::unix::fs::PermissionsExt;

use testbed::{Case, Content, Need, Place, Program};

use crate::both::metadata::set_mode;
use crate::cp::cp_as_nobody;
use crate::cp::witnessed::Pair;

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![[Need::Root] settings_that_may_not_be_read_are_a_warning_unless_named]
}

fn settings_that_may_not_be_read_are_a_warning_unless_named() {
    let pair = Pair::at(Place::Tmpfs, &Content::dense(1000));
    set_mode(pair.to.path(), 0o777);
    // As after `sudo -u nobody`, which may leave HOME as it was; or a file that is closed by itself.
    for (closed, mode) in [("home", 0o700), ("home/.config/uncopy/config.toml", 0o600)] {
        let directory = pair.from.join("home/.config/uncopy");
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("config.toml");
        std::fs::write(&file, "verify = 'sha256'\n").unwrap();
        let closed = pair.from.join(closed);
        std::fs::set_permissions(&closed, PermissionsExt::from_mode(mode)).unwrap();
        let homes: [fn(Program, &Pair) -> Program; 2] = [
            |program, pair| program.env("XDG_CONFIG_HOME", "").env("HOME", pair.from.join("home")),
            |program, pair| program.env("XDG_CONFIG_HOME", pair.from.join("home/.config")),
        ];
        for home in homes {
            for words in [&[][..], &["--quiet"]] {
                let _ = std::fs::remove_file(&pair.destination);
                let program = home(cp_as_nobody(), &pair).args(words);
                let run = pair.command(program).run();
                let receipt = run.receipt();
                assert_eq!(receipt.value()["verified"], false);
                let said = format!("uncopy: warning: cannot read {}", file.display());
                assert!(run.stderr.starts_with(&said), "{}", run.stderr);
                assert!(run.stderr.contains("(EACCES)"), "{}", run.stderr);
                assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
            }
        }
        std::fs::remove_file(&pair.destination).unwrap();
        let by_flag = cp_as_nobody().arg("--config").arg(&file);
        let by_variable = cp_as_nobody().env("UNCOPY_CONFIG", &file);
        for named in [by_flag, by_variable] {
            let run = pair.command(named).run();
            assert!(run.failed(2).contains("(EACCES)"), "{}", run.stderr);
            pair.assert_nothing_left();
        }
        std::fs::remove_dir_all(pair.from.join("home")).unwrap();
    }
}
