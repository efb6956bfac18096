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

use pyo3::prelude::*;

/// Native half of the package uncopy; use the names of that package.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::channel::{
        Channel, Descriptor, Memory, Message, OtherHandle, pair_for_program, seal,
    };
    #[pymodule_export]
    use crate::copy::copy_file;
    #[pymodule_export]
    use crate::examine::{capabilities, doctor, doctor_tcp};
    #[pymodule_export]
    use crate::failure::sentence_of_call;
    #[pymodule_export]
    use crate::interrupt::Progress;
    #[pymodule_export]
    use crate::options::check_options;
    #[pymodule_export]
    use crate::receipt::Receipt;
    #[pymodule_export]
    use crate::sender::{Release, Sender};
    #[pymodule_export]
    use crate::sys::flush::flush_filesystem;
    #[pymodule_export]
    use crate::tree::copy_tree;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::ending::prepare(module)
    }
}
