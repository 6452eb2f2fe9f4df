// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a zram device with a backing device write its idle pages there at intervals.
//!
//! The kernel does not write pages back by itself. At the end of each interval, pages that are
//! still marked idle are written; then all pages are marked, and the kernel removes the mark of a
//! page that is used. This needs no page ages (`CONFIG_ZRAM_TRACK_ENTRY_ACTIME`). A page is
//! therefore written after one to two intervals without use.
//!
//! The writing is done by a thread, because a write to `writeback` returns only when all pages are
//! written. There is nothing to undo: the device is removed with everything that it stores.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Doing, Error};
use crate::host_ops::HostOps;
use crate::loan::zram;

/// The thread that writes idle pages of a zram device to its backing device; dropping this ends
/// it.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Dropping this sender ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Writer {
    /// Starts the thread, whose first pass comes after one interval.
    pub(crate) fn start(
        mut host: Box<dyn HostOps + Send>,
        number: u32,
        every: Duration,
    ) -> Result<Self, Error> {
        let (end, ended) = channel::<()>();
        let work = move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(every) {
                run_pass(host.as_mut(), number)?;
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("writeback".to_owned()).spawn(work);
        let thread = thread.doing(|| format!("zram{number}: a thread for writeback"))?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }

    /// Ends the thread; a pass that is under way is finished first.
    ///
    /// # Errors
    /// If a pass failed; it was the last one.
    pub(crate) fn end(mut self) -> Result<(), Error> {
        self.join()
    }

    fn join(&mut self) -> Result<(), Error> {
        drop(self.end.take());
        // a panic of the thread was already reported
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

/// Writes back the pages that are still marked idle, then marks all pages as idle.
fn run_pass(host: &mut dyn HostOps, number: u32) -> Result<(), Error> {
    zram::write_setting(host, number, "writeback", "idle")?;
    zram::write_setting(host, number, "idle", "all")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::fake::{Fake, Fault};

    const SOON: Duration = Duration::from_millis(1);

    fn writer(fake: &Fake, every: Duration) -> Writer {
        Writer::start(Box::new(fake.clone()), 0, every).unwrap()
    }

    fn wait_for(fake: &Fake, writes: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        while fake.world().written.len() < writes {
            assert!(Instant::now() < until, "{:?}", fake.world().written);
            std::thread::sleep(SOON);
        }
    }

    #[test]
    fn what_is_idle_is_written_before_all_is_marked_again() {
        let fake = Fake::new(true, true);
        let writer = writer(&fake, SOON);
        wait_for(&fake, 6);
        writer.end().unwrap();
        let written = fake.world().written.clone();
        for pass in written.chunks(2) {
            let expected =
                [("/sys/block/zram0/writeback", "idle"), ("/sys/block/zram0/idle", "all")];
            assert_eq!(pass, expected.map(|(path, value)| (path.to_owned(), value.to_owned())));
        }
        std::thread::sleep(10 * SOON);
        assert_eq!(fake.world().written.len(), written.len(), "it has ended");
    }

    /// The kernel refuses the second pass, as if the backing device were full.
    #[test]
    fn a_pass_that_fails_is_the_last_and_is_told() {
        let fake = Fake::new(true, true);
        fake.world().faults = vec![Fault::Fail(2)];
        let writer = writer(&fake, SOON);
        let until = Instant::now() + Duration::from_secs(60);
        while !writer.thread.as_ref().unwrap().is_finished() && Instant::now() < until {
            std::thread::sleep(SOON);
        }
        let why = writer.end().unwrap_err();
        assert_eq!(why.to_string(), "zram0: writeback = idle");
        assert_eq!(fake.world().written.len(), 2, "one pass before it, and none after it");
    }

    #[test]
    fn nobody_waits_for_the_end_of_an_interval() {
        let fake = Fake::new(true, true);
        let began = Instant::now();
        writer(&fake, Duration::from_secs(3600)).end().unwrap();
        drop(writer(&fake, Duration::from_secs(3600)));
        assert!(began.elapsed() < Duration::from_secs(600) && fake.world().written.is_empty());
    }
}
