//! The program's words: each file in `tests/cmd` holds commands and what they print.

fn commands_print_what_their_files_say() {
    let cases = trycmd::TestCases::new();
    cases
        // Set to nothing counts as not set: the environment of whoever runs this does not matter.
        .env("UNCOPY_VERIFY", "")
        .env("UNCOPY_CONFIG", "/dev/null")
        .case("tests/cmd/*.trycmd");
    // It lists the commands of a build with units.
    #[cfg(not(feature = "unit"))]
    cases.skip("tests/cmd/help.trycmd");
}

fn the_environment_is_heeded_as_its_files_say() {
    trycmd::TestCases::new().env("UNCOPY_CONFIG", "/dev/null").case("tests/cmd/*.toml");
}

pub(crate) fn cases() -> Vec<testbed::Case> {
    testbed::cases![
        [] commands_print_what_their_files_say,
        [] the_environment_is_heeded_as_its_files_say,
    ]
}
