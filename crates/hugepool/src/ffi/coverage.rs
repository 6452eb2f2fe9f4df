// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Coverage of the calling process for C: totals, a callback for each mapping, and text for
//! Prometheus.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};

use super::result::{Code, INVALID, run_for_code, store, to_code};
use crate::coverage::{Coverage, Method, Process};

/// The C structure `hugepool_coverage`. All fields are in bytes, except for the numbers of pages `sampled_pages`
/// and `zero_pages`, and `by_scan`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct CCoverage {
    /// Bytes of address space; see [`Coverage::mapped`].
    pub mapped: u64,
    /// Bytes that could be in huge pages; see [`Coverage::eligible`].
    pub eligible: u64,
    /// Bytes of resident memory; see [`Coverage::resident`].
    pub resident: u64,
    /// Bytes in huge pages; see [`Coverage::huge`].
    pub huge: u64,
    /// Estimated bytes that are resident only because of huge pages, 0 without a sample; see
    /// [`Coverage::growth`].
    pub growth: u64,
    /// Number of pages that were read; see [`Coverage::sampled`].
    pub sampled_pages: u64,
    /// Number of sampled pages that contain only zeros; see [`Coverage::zero`].
    pub zero_pages: u64,
    /// How the coverage was read: 1 by PAGEMAP_SCAN, 0 from smaps.
    pub by_scan: u64,
}

impl CCoverage {
    pub(super) fn new(coverage: &Coverage, method: Method) -> Self {
        Self {
            mapped: coverage.mapped,
            eligible: coverage.eligible,
            resident: coverage.resident,
            huge: coverage.huge,
            growth: coverage.growth().unwrap_or(0),
            sampled_pages: coverage.sampled,
            zero_pages: coverage.zero,
            by_scan: u64::from(method == Method::PagemapScan),
        }
    }
}

/// The C type `hugepool_mapping_function`: the callback that is called for each mapping. Its arguments are the
/// caller's context and, of the mapping, the name, the first address, the first address after the mapping, and the
/// coverage. It returns 0 to continue.
pub type MappingFunction =
    unsafe extern "C" fn(*mut c_void, *const c_char, u64, u64, *const CCoverage) -> c_int;

/// Stores the sums over all private anonymous mappings of this process in `out`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_coverage_process(samples: c_uint, out: *mut CCoverage) -> Code {
    run_for_code(|| {
        let process = Process::read(samples).map_err(|error| to_code(&error))?;
        // SAFETY: the caller promises that `out` may be written.
        unsafe { store(out, CCoverage::new(&process.total(), process.method)) }
    })
}

/// Calls a function for each private anonymous mapping of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_coverage_mappings(
    samples: c_uint,
    function: Option<MappingFunction>,
    context: *mut c_void,
) -> Code {
    run_for_code(|| {
        let function = function.ok_or(INVALID)?;
        let process = Process::read(samples).map_err(|error| to_code(&error))?;
        for mapping in &process.mappings {
            let coverage = CCoverage::new(&mapping.coverage, process.method);
            let name = CString::new(mapping.name.as_str()).unwrap_or_default();
            // SAFETY: the caller promises that its function takes these; name and coverage live until it returns.
            let answer = unsafe {
                function(context, name.as_ptr(), mapping.start, mapping.end, &raw const coverage)
            };
            if answer != 0 {
                break;
            }
        }
        Ok(())
    })
}

/// Writes zero-terminated lines for Prometheus into a buffer; stores the number of bytes that they
/// take in `needed`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hugepool_coverage_prometheus(
    samples: c_uint,
    buffer: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> Code {
    run_for_code(|| {
        let process = Process::read(samples).map_err(|error| to_code(&error))?;
        let text = CString::new(process.prometheus()).map_err(|_| INVALID)?;
        let text = text.as_bytes_with_nul();
        // SAFETY: the caller promises that `needed` may be written.
        unsafe { store(needed, text.len())? };
        if buffer.is_null() || size < text.len() {
            return Err(INVALID);
        }
        // SAFETY: the caller promises `size` writable bytes, and the text is not longer.
        unsafe { buffer.copy_from_nonoverlapping(text.as_ptr().cast(), text.len()) };
        Ok(())
    })
}
