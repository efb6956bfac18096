//! Shows here what the program on the other machine prints.

use std::borrow::Cow;
use std::io;

use uncopy::copy::job::JobProgress;
use uncopy::remote::{FarEvent, JobState, Note, OutputStream};

use super::recorder::Recorder;
use super::session;
use crate::flags::copy::CopyArgs;
use crate::job_control::JobControl;
use crate::progress::JobBar;
use crate::report::outlet::{self, Stream};
use crate::report::{printable, say};

/// Longest line that is kept back until it is whole: paths in trees of thousands of levels are long. A longer one is shown in
/// parts of whole characters.
const MAX_LINE_BYTES: usize = 4 << 20;

/// Output of the other machine, which this one does not trust: control characters of its text are shown, not obeyed.
pub(super) struct Relay<'a> {
    bar: JobBar,
    output: Lines,
    error: Lines,
    unwritten: Option<io::Error>,
    is_quiet: bool,
    is_json: bool,
    recorder: Option<&'a mut Recorder>,
    control: &'a JobControl,
    /// How far the job was when the other machine said so last.
    state: JobProgress,
}

impl<'a> Relay<'a> {
    pub(super) fn new(
        flags: &CopyArgs,
        shows_progress: bool,
        control: &'a JobControl,
        recorder: Option<&'a mut Recorder>,
    ) -> Relay<'a> {
        Relay {
            bar: JobBar::new(shows_progress, flags.tree.progress, control.clock()),
            output: Lines::default(),
            error: Lines::default(),
            unwritten: None,
            is_quiet: flags.quiet,
            is_json: flags.json,
            recorder,
            control,
            state: JobProgress::default(),
        }
    }

    /// Installs the handlers of signals that suspend the job or request its progress.
    pub(super) fn listen(&self) {
        self.control.listen();
    }

    /// Acts on these signals.
    pub(super) fn handle_signals(&self) {
        self.control.handle_signals();
        if self.control.take_status_request() {
            self.bar.print_status(self.state);
        }
    }

    /// Whether the progress is shown.
    pub(super) fn wants_progress(&self) -> bool {
        self.bar.wants_totals()
    }

    /// Shows what the other machine sent.
    pub(super) fn take(&mut self, event: &FarEvent<'_>) {
        match *event {
            FarEvent::Output { stream, bytes } => {
                let (lines, stream) = match stream {
                    OutputStream::Standard => (&mut self.output, Stream::Output),
                    OutputStream::Error => (&mut self.error, Stream::Error),
                    OutputStream::Records => {
                        let Relay { bar, recorder, .. } = self;
                        let Some(recorder) = recorder else { return };
                        return bar.aside(|| recorder.records(bytes));
                    }
                    OutputStream::File => {
                        return self.recorder.iter_mut().for_each(|it| it.lines(bytes));
                    }
                };
                lines.feed(bytes);
                let whole = lines.take_whole();
                if let (Stream::Output, Some(recorder)) = (stream, &mut self.recorder) {
                    recorder.output(&whole);
                }
                self.show(stream, &whole);
            }
            FarEvent::Progress(state) => {
                self.state = progress(state);
                self.bar.draw(self.state);
            }
            FarEvent::Note(Note::NoData(why)) if !session::is_notable(why) => {}
            FarEvent::Note(note) if !self.is_quiet => {
                self.bar.aside(|| say(&format!("note: {}", words(note))));
            }
            _ => {}
        }
    }

    /// Shows what is left without the end of a line. Returns the first error of standard output.
    pub(super) fn finish(mut self) -> Option<io::Error> {
        for stream in [Stream::Output, Stream::Error] {
            let rest = match stream {
                Stream::Output => std::mem::take(&mut self.output.0),
                Stream::Error => std::mem::take(&mut self.error.0),
            };
            self.show(stream, &rest);
        }
        self.unwritten
    }

    fn show(&mut self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let text = match (stream, self.is_json) {
            (Stream::Output, true) => harmless_json(bytes),
            _ => harmless(bytes),
        };
        let written = self.bar.aside(|| outlet::write(stream, text.as_bytes()));
        if let (Stream::Output, Err(error)) = (stream, written) {
            self.unwritten.get_or_insert(error);
        }
    }
}

/// Bytes of a stream that do not end a line yet.
#[derive(Debug, Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn feed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Takes out the whole lines; what is too long for one, too.
    fn take_whole(&mut self) -> Vec<u8> {
        let end = match self.0.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if self.0.len() > MAX_LINE_BYTES => match std::str::from_utf8(&self.0) {
                // Its last character is not there yet.
                Err(cut) if cut.error_len().is_none() => cut.valid_up_to(),
                _ => self.0.len(),
            },
            None => 0,
        };
        let rest = self.0.split_off(end);
        std::mem::replace(&mut self.0, rest)
    }
}

/// Escapes control characters other than the ends of lines, which uncopy itself never prints: such text comes from
/// another program.
fn harmless(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match line.strip_suffix('\n') {
            Some(line) => shown.extend([&*printable(line), "\n"]),
            None => shown.push_str(&printable(line)),
        }
    }
    shown
}

/// As [`harmless`] for lines of JSON, in whose texts a control character may stand as it is or by its number.
fn harmless_json(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() && character != '\n' {
            true => shown.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => shown.push(character),
        }
    }
    shown
}

/// Converts the state of the other machine's job to that of one here.
fn progress(state: &JobState) -> JobProgress {
    let mut progress = JobProgress::default();
    (progress.entries, progress.total_entries) = (state.entries, state.total_entries);
    (progress.bytes, progress.total_bytes) = (state.bytes, state.total_bytes);
    progress.scanned = state.is_total_final;
    progress
}

/// Describes what the other machine cannot do.
pub(super) fn words(note: Note) -> Cow<'static, str> {
    match note {
        Note::NearNotConfined => {
            "the kernel here has no Landlock: uncopy shows nothing but the sources by its own checks alone".into()
        }
        Note::FarNotConfined => {
            "the kernel of the other machine has no Landlock: uncopy keeps to the paths of the copy there by its own \
             checks alone"
                .into()
        }
        Note::NoData(why) => {
            format!("bytes go through the remote shell, without connections of their own: {why}")
                .into()
        }
        _ => "the other machine has a note that this version does not know".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_another_machine_cannot_drive_the_terminal() {
        for (bytes, expected) in [
            (&b"a\nb\n"[..], "a\nb\n"),
            (b"a\x1b[31m\rb\n", "a\\u{1b}[31m\\rb\n"),
            ("\u{9b}31m\n\u{e4}".as_bytes(), "\\u{9b}31m\n\u{e4}"),
            (b"{\"schema\":1}\n", "{\"schema\":1}\n"),
            (b"\xff\n", "\u{fffd}\n"),
        ] {
            assert_eq!(harmless(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn json_of_another_machine_stays_json() {
        for character in ['\u{7f}', '\u{80}', '\u{9b}', '\u{9f}', '\u{a0}', '\u{e4}'] {
            let line = serde_json::to_string(&format!("a{character}b")).unwrap() + "\n";
            let shown = harmless_json(line.as_bytes());
            assert!(!shown.trim_end().chars().any(char::is_control), "{shown:?}");
            let read: String = serde_json::from_str(&shown).unwrap();
            assert_eq!(read, format!("a{character}b"));
        }
    }

    #[test]
    fn lines_are_shown_when_they_are_whole() {
        let mut lines = Lines::default();
        let mut shown = Vec::new();
        for piece in ["a\u{c3}", "b\nc", "d", "\n\n", "e"] {
            lines.feed(piece.as_bytes());
            shown.push(String::from_utf8(lines.take_whole()).unwrap());
        }
        assert_eq!(shown, ["", "a\u{c3}b\n", "", "cd\n\n", ""]);
        assert_eq!(lines.0, b"e");
        lines.feed(&vec![b'x'; MAX_LINE_BYTES]);
        assert_eq!(lines.take_whole().len(), MAX_LINE_BYTES + 1);
        assert!(lines.0.is_empty());
        // A part ends with a whole character.
        lines.feed(&vec![b'x'; MAX_LINE_BYTES]);
        lines.feed(b"y\xc3");
        assert!(lines.take_whole().ends_with(b"y"));
        lines.feed(b"\xa4\n");
        assert_eq!(lines.take_whole(), "\u{e4}\n".as_bytes());
    }
}
