//! Wheels of the Python package, for every system that they are published for.

use std::path::PathBuf;

use anyhow::Result;

use super::build::Setting;
use crate::python;
use crate::python::wheel::PUBLISHED;

/// Builds them.
///
/// # Errors
/// If there is no Python from 3.11 on, a standard library of Rust is missing, or a wheel cannot be built.
pub(super) fn make(setting: &Setting) -> Result<Vec<PathBuf>> {
    let tools = python::tools_for_all_systems()?;
    let cargo = setting.cargo(&[]);
    PUBLISHED.iter().map(|wheel| wheel.build(&tools, &cargo, setting.out())).collect()
}
