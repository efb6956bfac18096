//! `uncopy capabilities`.
use crate::exit::Exit;
use crate::flags::capabilities::CapabilitiesArgs;
pub(crate) fn run(_: &CapabilitiesArgs) -> Result<Exit, clap::Error> { Ok(Exit::Success) }
