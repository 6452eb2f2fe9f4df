// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small file of the live machine that is read repeatedly ([`OpenFile`]).

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::answer::Refusal;

/// A small file that stays open. Finding, opening and closing a small file in `/proc` costs more
/// than reading it.
///
/// An open file of a process remains bound to that process: after its exit reading fails, even if
/// the process id was reused.
#[derive(Debug)]
pub struct OpenFile(pub(crate) OwnedFd);

impl OpenFile {
    /// The current contents of the file, as far as they fit into `buffer`.
    ///
    /// # Errors
    /// If it cannot be read, or the process or device it belonged to is gone.
    pub fn read<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a [u8], Refusal> {
        loop {
            match rustix::io::pread(&self.0, &mut *buffer, 0) {
                Ok(length) => return Ok(buffer.get(..length).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Refusal::from_errno(errno)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::read::ReadHost;
    use crate::root::HostRoot;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test needs a process that ends")]
    fn an_open_file_is_read_again_until_its_process_has_ended() {
        let host = HostRoot::live().unwrap();
        let mut child = std::process::Command::new("cat");
        let mut child = child.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let path = format!("proc/{}/statm", child.id());
        let file = host.stay_open(&path).unwrap();
        let mut buffer = [0; 256];
        for _ in 0..2 {
            let words = file.read(&mut buffer).unwrap().split(|byte| *byte == b' ').count();
            assert_eq!(words, 7);
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(file.read(&mut buffer).is_err());
        assert!(host.stay_open(&path).is_none());
        assert!(HostRoot::memory([]).stay_open("proc/1/statm").is_none());
    }
}
