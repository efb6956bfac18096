//! Copies a file and prints the receipt: `cargo run --example copy_file SRC DST [MECHANISM]`.

use std::error::Error;

use uncopy::Mechanism;
use uncopy::copy::{Allow, CopyOptions, Outcome, copy_file};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(source), Some(destination)) = (arguments.next(), arguments.next()) else {
        return Err("usage: copy_file SRC DST [MECHANISM]".into());
    };
    let mut options = CopyOptions::new();
    if let Some(name) = arguments.next() {
        let mechanism = Mechanism::LINUX.into_iter().find(|m| name == m.name());
        options = options.allow(Allow::Only(mechanism.ok_or("no such mechanism")?));
    }
    let Outcome::Copied(receipt) = copy_file(source, destination, &options)? else {
        return Err("it was left alone".into());
    };
    for portion in &receipt.portions {
        println!("{} bytes by {} ({})", portion.bytes, portion.mechanism, portion.cost);
    }
    for refusal in &receipt.refusals {
        println!("not used: {refusal}");
    }
    println!("{:?}", receipt.duration);
    Ok(())
}
