//! Claims that hold of a file alone and of a file in a tree: each is one function over [`Form`]s, and
//! the name of a case ends in its form.

mod cache;
mod changing;
pub(crate) mod digest;
mod durable;
mod existing;
mod interrupted;
mod job_control;
mod leftovers;
pub(crate) mod metadata;
mod names;
mod no_clobber;
mod permissions;
mod retrying;
mod space;
mod sparse;
#[cfg(feature = "compress")]
mod transformed;
mod verify;

use testbed::{Case, Need};

/// Form of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `cp SOURCE DESTINATION`.
    File,
    /// `cp -r`: the file lies in a tree, and the destination is made.
    NewTree,
    /// `cp -r`: the file lies in a tree, and the destination is a directory that is there.
    OldTree,
}

impl Form {
    /// Every form.
    pub(crate) const ALL: [Form; 3] = [Form::File, Form::NewTree, Form::OldTree];

    /// Those that can meet an old file.
    pub(crate) const OVER_OLD: [Form; 2] = [Form::File, Form::OldTree];

    const fn name(self) -> &'static str {
        match self {
            Form::File => "file",
            Form::NewTree => "new_tree",
            Form::OldTree => "old_tree",
        }
    }

    pub(crate) fn is_tree(self) -> bool {
        self != Form::File
    }
}

/// Makes a case for each form; those of trees can run on several filesystems. In the short extent there is
/// one for the file, and one for a tree, in turn.
pub(crate) fn cases_of(
    forms: &[Form],
    path: &str,
    needs: &[Need],
    function: impl Fn(Form) + Copy + Send + Sync + 'static,
) -> Vec<Case> {
    let name = path.trim_start_matches("cli::");
    let turn = name.len() % 2;
    let case = |(number, form): (usize, &Form)| {
        let form = *form;
        let case = Case::new(format!("{name}::{}", form.name()), needs, move || function(form));
        let case = if form.is_tree() { case.repeatable() } else { case };
        match number > 0 && forms.len() > 2 && number % 2 != turn {
            true => case.only_in_full(),
            false => case,
        }
    };
    forms.iter().enumerate().map(case).collect()
}

/// Makes a case for each of these forms from functions over forms, as [`testbed::cases!`] does.
macro_rules! cases_over {
    ($forms:expr; $([$($need:expr),* $(,)?] $name:ident),* $(,)?) => {{
        let mut cases = Vec::new();
        $(
            let path = concat!(module_path!(), "::", stringify!($name));
            cases.extend($crate::both::cases_of(&$forms, path, &[$($need),*], $name));
        )*
        cases
    }};
}
use cases_over;

pub(crate) fn cases() -> Vec<Case> {
    let signals = [interrupted::cases(), job_control::cases()].into_iter().flatten().collect();
    let others = [
        cache::cases(),
        changing::cases(),
        digest::cases(),
        durable::cases(),
        existing::cases(),
        leftovers::cases(),
        metadata::cases(),
        names::cases(),
        no_clobber::cases(),
        permissions::cases(),
        retrying::cases(),
        space::cases(),
        sparse::cases(),
        #[cfg(feature = "compress")]
        transformed::cases(),
        verify::cases(),
    ];
    let signals = testbed::on_each_filesystem(signals, &[]);
    others.into_iter().flatten().chain(signals).collect()
}
