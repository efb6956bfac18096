//! Input: a configuration file. It is displayed, or refused with a message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uncopy_cli::Exit;

fuzz_target!(|data: &[u8]| {
    let exit = uncopy_fuzz::run_on_file(&["config", "show", "--config"], data);
    assert!(matches!(exit, Exit::Success | Exit::Usage), "{exit:?}");
});
