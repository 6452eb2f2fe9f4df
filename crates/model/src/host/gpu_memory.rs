// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of GPU buffers.

use crate::{Bytes, Name, Reading};

/// System memory in the buffers of one process on one GPU, as the GPU's driver prints it in
/// `/proc/PID/fdinfo`. Source: the kernel's gpu/drm-usage-stats document.
#[derive(Debug, Clone, Default)]
pub struct GpuMemory {
    /// Id of the process.
    pub pid: u32,
    /// Name of the process.
    pub process: Name,
    /// Name of the driver, such as `amdgpu`.
    pub driver: Name,
    /// Address of the GPU on its bus; empty if the driver does not print it.
    pub device: Name,
    /// Size of the buffers that are in system memory. A buffer that several processes share counts
    /// for each of them.
    pub system: Reading<Bytes>,
}
