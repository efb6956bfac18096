//! The project's own tasks, run as `cargo xtask COMMAND`.

mod book;
mod compare;
mod evidence;
mod finding;
mod fuzz;
mod install_c;
mod interface;
mod package;
mod peers;
mod process;
mod python;
mod sanitize;
mod soak;
mod tidy;
mod vm_test;
mod workspace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

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
    /// Check the book and the other pages: contents, links, commands; and build it.
    Book(book::Arguments),
    /// Compare the public interface of each library crate with its file.
    Interface(interface::Arguments),
    /// Build and install the C library with its headers.
    InstallC(install_c::Arguments),
    /// Build what people install, with digests: the same bits each time.
    Package(package::Arguments),
    /// Build the Python package as a wheel, and test it in a fresh environment.
    PythonTest(python::Arguments),
    /// Measure a suite side by side with its peers.
    Compare(compare::Arguments),
    /// Write one page with everything that was measured, or set two sets of rows side by side.
    Evidence(evidence::Arguments),
    /// Kill, fill and cut power in a loop, and look at what is left.
    Soak(soak::Arguments),
    /// Send over virtio-net in a virtual machine, and count what its kernel copies; or run tests on other
    /// kernels.
    VmTest(vm_test::Arguments),
    /// Run the tests of sending under AddressSanitizer.
    Sanitize(sanitize::Arguments),
    /// Feed everything that reads bytes from outside with what a fuzzer makes up.
    Fuzz(fuzz::Arguments),
    /// List every unsafe block with its proof.
    UnsafeCode(tidy::unsafe_code::InventoryArguments),
    /// Build the programs that are only compared with.
    Peers(peers::Arguments),
    /// Run one program and print what it cost, as JSON (used by `compare`).
    #[command(hide = true)]
    Measure(process::MeasureArguments),
    /// Send back every message that comes on the standard input (used by `compare`).
    #[command(hide = true)]
    Echo(compare::channel::echo::EchoArguments),
    /// Send back every payload that comes on the standard input (used by `compare`).
    #[command(hide = true)]
    EchoPayload(compare::channel::payload::EchoArguments),
    /// Write to fresh memory and give it back (used by `compare`).
    #[command(hide = true)]
    Touch(compare::memory::TouchArguments),
    /// Copy a tree by nothing but system calls (used by `compare`).
    #[command(hide = true)]
    CopyBare(compare::tree::bare::CopyBareArguments),
    /// Walk through a tree by nothing but system calls (used by `compare`).
    #[command(hide = true)]
    WalkBare(compare::unit::walk::WalkBareArguments),
    /// Answer logins, and say what they took (used by `compare`).
    #[command(hide = true)]
    MeterLogins(compare::remote::meter::MeterArguments),
    /// Copy a file to or from another machine by nothing but a loop (used by `compare`).
    #[command(hide = true)]
    BareCopy(compare::remote::bare::BareArguments),
    /// Write to a channel until it is killed (used by `soak`).
    #[command(hide = true)]
    WriteToChannel,
    /// Write to the channel it was started with what comes from another until it is killed (used by
    /// `soak`).
    #[command(hide = true)]
    RelayToChannel,
    /// Receive and check what comes until it is killed (used by `soak`).
    #[command(hide = true)]
    ReceiveAndCheck,
    /// Play one case of the doctor's soak (used by `soak`).
    #[command(hide = true)]
    PlayDoctorCase(soak::doctor::play::PlayArguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Tidy(arguments) => tidy::run(&arguments),
        Task::Book(arguments) => book::run(&arguments, &Arguments::command()),
        Task::Interface(arguments) => interface::run(&arguments),
        Task::InstallC(arguments) => install_c::run(&arguments),
        Task::Package(arguments) => package::run(&arguments),
        Task::PythonTest(arguments) => python::run(&arguments),
        Task::Compare(arguments) => compare::run(&arguments),
        Task::Evidence(arguments) => evidence::run(&arguments),
        Task::Soak(arguments) => soak::run(&arguments),
        Task::VmTest(arguments) => vm_test::run(&arguments),
        Task::Sanitize(arguments) => sanitize::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::UnsafeCode(arguments) => tidy::unsafe_code::run(&arguments),
        Task::Peers(arguments) => peers::run(&arguments),
        Task::Measure(arguments) => process::measure(&arguments),
        Task::Echo(arguments) => compare::channel::echo::run(&arguments),
        Task::EchoPayload(arguments) => compare::channel::payload::run(&arguments),
        Task::Touch(arguments) => compare::memory::touch(&arguments),
        Task::CopyBare(arguments) => compare::tree::bare::run(&arguments),
        Task::WalkBare(arguments) => compare::unit::walk::run(&arguments),
        Task::MeterLogins(arguments) => compare::remote::meter::run(&arguments),
        Task::BareCopy(arguments) => compare::remote::bare::run(&arguments),
        Task::WriteToChannel => soak::channel::write(),
        Task::RelayToChannel => soak::channel::relay(),
        Task::ReceiveAndCheck => soak::send::receiver::run(),
        Task::PlayDoctorCase(arguments) => soak::doctor::play::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
