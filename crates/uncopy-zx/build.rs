//! The name that programs ask the dynamic loader for, and that the library is never unloaded: its
//! signal handlers stay.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libuncopy_zx.so.0");
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
