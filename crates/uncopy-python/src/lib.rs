//! The native half of the Python package `uncopy`: arguments are checked, the library is called without the
//! interpreter's lock, and what it returns becomes objects. The shape of `shutil` is in `python/uncopy`.

#![deny(missing_docs)]
#![cfg(target_os = "linux")]

mod advice;
mod channel;
mod copy;
mod ending;
mod examine;
mod failure;
mod interrupt;
mod options;
mod path;
mod receipt;
mod sender;
mod status;
mod sys;
mod tree;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Native half of the package uncopy; use the names of that package.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Before anything is added: types and functions that are kept are those of one interpreter.
    if !sys::interpreter::is_first(module.py()) {
        return Err(PyImportError::new_err(
            "uncopy does not support subinterpreters: import it in the main interpreter, or in other processes",
        ));
    }
    module.add_class::<channel::Channel>()?;
    module.add_class::<channel::Descriptor>()?;
    module.add_class::<channel::Memory>()?;
    module.add_class::<channel::Message>()?;
    module.add_class::<channel::OtherHandle>()?;
    module.add_class::<interrupt::Progress>()?;
    module.add_class::<receipt::Receipt>()?;
    module.add_class::<sender::Release>()?;
    module.add_class::<sender::Sender>()?;
    module.add_function(wrap_pyfunction!(channel::pair_for_program, module)?)?;
    module.add_function(wrap_pyfunction!(channel::seal, module)?)?;
    module.add_function(wrap_pyfunction!(copy::copy_file, module)?)?;
    module.add_function(wrap_pyfunction!(examine::capabilities, module)?)?;
    module.add_function(wrap_pyfunction!(examine::doctor, module)?)?;
    module.add_function(wrap_pyfunction!(examine::doctor_tcp, module)?)?;
    module.add_function(wrap_pyfunction!(failure::sentence_of_call, module)?)?;
    module.add_function(wrap_pyfunction!(options::check_options, module)?)?;
    module.add_function(wrap_pyfunction!(sys::flush::flush_filesystem, module)?)?;
    module.add_function(wrap_pyfunction!(tree::copy_tree, module)?)?;
    ending::prepare(module)
}
