//! Guards of jobs, which these systems do not have.

use std::marker::PhantomData;

/// Stands for an entry that a guard is asked about.
pub(crate) struct Guarded<'a>(PhantomData<&'a ()>);
