//! The project's own tasks, run as `cargo xtask COMMAND`.

//mod compare;
//mod man;
//mod peers;
//mod process;
//mod soak;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own tasks.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the rules of the house: sizes, names, homes of unsafe code, manifests.
    Tidy(tidy::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Tidy(arguments) => tidy::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
