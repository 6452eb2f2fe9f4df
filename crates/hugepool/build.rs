// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Linker options of the shared library: its soname, and `-z nodelete`, so that dlclose() does not
//! unload it while its fork() handlers and thread destructors are registered.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let has_pool = std::env::var_os("CARGO_FEATURE_POOL").is_some();
    let name = if has_pool { "libhugepool.so.0" } else { "libhugepool-coverage.so.0" };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{name}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
