// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the shared library is linked: its name for the loader, and that dlclose() does not unload it, because its
//! handlers of fork() and of the end of a thread stay registered.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let has_pool = std::env::var_os("CARGO_FEATURE_POOL").is_some();
    let name = if has_pool { "libhugepool.so.0" } else { "libhugepool-coverage.so.0" };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{name}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
