//! Another network namespace at the end of a link.

use testbed::network::Network;

/// Another network namespace, held by an idle process.
pub(crate) struct Neighbour(std::process::Child);

impl Neighbour {
    pub(crate) fn start() -> Neighbour {
        let words = ["--net", "sleep", "600"];
        let child = std::process::Command::new("unshare").args(words).spawn().unwrap();
        let network = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/net")).unwrap();
        let begin = std::time::Instant::now();
        while network(&child.id().to_string()) == network("thread-self") {
            assert!(begin.elapsed() < testbed::LONG);
            std::thread::yield_now();
        }
        Neighbour(child)
    }

    /// Moves a device there and sets it up.
    pub(crate) fn take(&self, device: &str) {
        Network::here().ip(&format!("link set {device} netns {}", self.0.id()));
        self.ip("link set lo up");
        self.ip(&format!("link set {device} up"));
    }

    pub(crate) fn ip(&self, words: &str) {
        let words = format!("--net --target {} ip {words}", self.0.id());
        testbed::run_tool("nsenter", words.split(' '));
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
