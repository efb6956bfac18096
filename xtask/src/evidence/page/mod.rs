//! The report as one page of HTML that needs nothing else: pure. Templates escape what they are
//! given.

mod curves;
mod rows;
mod runs;
mod texts;

use std::path::PathBuf;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::inputs::Inputs;
use super::texts::Texts;

/// What the page shows beside the rows.
pub(super) struct Page<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) texts: &'a Texts,
    /// Suites that did not run, and why.
    pub(super) failures: Vec<(String, String)>,
    /// Files with unsafe code, and how many pieces of it.
    pub(super) unsafe_code: &'a [(PathBuf, usize)],
    /// All that there are.
    pub(super) fuzz_targets: Vec<String>,
    /// Where Criterion's own reports begin, if there are any.
    pub(super) criterion: Option<String>,
    /// Files of rows beside the page.
    pub(super) files: Vec<String>,
    /// The commit of the tree whose unsafe code is counted.
    pub(super) commit: &'a str,
}

impl Page<'_> {
    /// The page.
    pub(super) fn html(&self) -> String {
        let body = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { "uncopy: evidence" }
                    // Without this a browser asks the server for an icon.
                    link rel="icon" href="data:,";
                    style { (PreEscaped(include_str!("style.css"))) }
                }
                body {
                    (self.head())
                    main {
                        (rows::machines(self.inputs))
                        (texts::section(self.texts, self.inputs))
                        (curves::section(self.inputs))
                        (curves::crossovers(self.inputs))
                        (rows::targets(self.inputs))
                        (runs::soaks(&self.inputs.soaks))
                        (runs::fuzzing(&self.inputs.fuzzing, &self.fuzz_targets))
                        (runs::unsafe_code(self.unsafe_code, self.commit))
                        (runs::coverage(&self.inputs.coverage, self.inputs.coverage_commit.as_deref()))
                        (rows::all(self.inputs))
                        (self.sources())
                    }
                }
            }
        };
        body.into_string()
    }

    fn head(&self) -> Markup {
        let quick = self
            .inputs
            .comparisons
            .iter()
            .any(|comparison| comparison.notes.iter().any(|note| note.starts_with("quick")));
        html! {
            header {
                h1 { "Evidence" }
                p.lead {
                    "What uncopy claims, as it was measured: beside the figures of the four texts it \
                     takes after, beside its peers, and with the command for every figure."
                }
                @if quick {
                    p.warning {
                        strong { "A quick run." }
                        " Two rounds of short runs: it shows that everything runs, not how quick it is."
                    }
                }
                @for (suite, reason) in &self.failures {
                    p.warning { strong { "Not measured: " (suite) ". " } (reason) }
                }
                nav {
                    @for (id, name) in [
                        ("machines", "Where it was measured"), ("texts", "The four texts"), ("curves", "Curves"),
                        ("crossovers", "Crossovers"), ("targets", "Targets"), ("soak", "Soak"),
                        ("fuzzing", "Fuzzing"), ("unsafe", "Unsafe code"), ("coverage", "Coverage"),
                        ("rows", "All rows"), ("files", "Files"),
                    ] {
                        a href={ "#" (id) } { (name) }
                    }
                }
            }
        }
    }

    fn sources(&self) -> Markup {
        section(
            "files",
            "Files",
            &html! {
                p {
                    "One JSON object a line: the figures behind this page. "
                    code { "cargo xtask evidence diff A B" }
                    " sets two such sets side by side."
                }
                ul {
                    @for file in &self.files { li { a href=(file) { (file) } } }
                    @if let Some(criterion) = &self.criterion {
                        li { a href=(criterion) { "Criterion's own reports" } ": distributions of each benchmark" }
                    } @else {
                        li {
                            "No reports of Criterion are here; " code { "cargo bench" } " makes some, with "
                            "the distributions of each benchmark. What measures this page draws none."
                        }
                    }
                }
            },
        )
    }
}

/// A part of the page that can be linked to.
fn section(id: &str, title: &str, body: &Markup) -> Markup {
    html! {
        section id=(id) {
            h2 { (title) }
            (body)
        }
    }
}

/// A table whose lines are read one by one: on a narrow screen each is a paragraph, and its cells
/// have the names of their columns before them. Cells of the first column are headings.
fn table(heads: &[&str], lines: impl IntoIterator<Item = Vec<Markup>>) -> Markup {
    table_of("lines", heads, lines)
}

/// One whose cells are figures, but for those of the first column; it scrolls sideways where it does
/// not fit.
fn table_of_figures(heads: &[&str], lines: impl IntoIterator<Item = Vec<Markup>>) -> Markup {
    table_of("figures", heads, lines)
}

fn table_of(class: &str, heads: &[&str], lines: impl IntoIterator<Item = Vec<Markup>>) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table class=(class) {
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody {
                    @for line in lines {
                        tr {
                            @for (index, cell) in line.into_iter().enumerate() {
                                @if index == 0 {
                                    th scope="row" { (cell) }
                                } @else {
                                    td data-head=[head(class, heads, index)] { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The name of a column, where its cells are to be read without it above them.
fn head<'a>(class: &str, heads: &[&'a str], index: usize) -> Option<&'a str> {
    let named = heads.get(index).copied().filter(|head| !head.is_empty());
    named.filter(|_| class == "lines")
}

fn text(text: impl AsRef<str>) -> Markup {
    html! { (text.as_ref()) }
}

fn code(text: &str) -> Markup {
    html! { code { (text) } }
}

#[cfg(test)]
mod tests {
    use super::super::inputs::{Covered, FuzzRun};
    use super::*;

    fn small() -> Inputs {
        let mut inputs = Inputs::default();
        for (case, own, peer) in
            [("ext4/4KiB/warm", 0.001, 0.002), ("ext4/1MiB/warm", 0.004, 0.003)]
        {
            inputs.of_row("copy", case, "cp", ("wall", "s"), peer);
            inputs.of_row("copy", case, "uncopy", ("wall", "s"), own);
            inputs.of_row("copy", case, "uncopy", ("cpu", "s"), own / 2.0);
        }
        inputs.of_row("tree", "ext4/<many>/warm", "cp -a", ("wall", "s"), 0.2);
        let soak = r#"{"suite":"soak channel","findings":0,"killed":300,"unix_seconds":1}"#;
        inputs.add(soak).unwrap();
        inputs.fuzzing.push(FuzzRun {
            target: "fidl_decode".into(),
            seconds: 60.0,
            executions: 123_456,
            findings: 0,
            commit: "abc & def".into(),
        });
        inputs.coverage.push(Covered { name: "uncopy".into(), lines: 200, covered: 150 });
        inputs.coverage_commit = Some("def".into());
        inputs
    }

    fn html_of(inputs: &Inputs) -> String {
        Page {
            inputs,
            texts: &Texts::load().unwrap(),
            failures: vec![("send".into(), "<no> network".into())],
            unsafe_code: &[("crates/uncopy/src/sys/file.rs".into(), 3)],
            fuzz_targets: vec!["fidl_decode".into(), "tuned".into()],
            criterion: None,
            files: vec!["compare-copy.jsonl".into()],
            commit: "abc",
        }
        .html()
    }

    /// Every tag that is opened is closed, in order: a browser would repair a broken page silently.
    fn assert_balanced(html: &str) {
        const VOID: [&str; 4] = ["!DOCTYPE", "meta", "link", "br"];
        let mut open = Vec::new();
        for tag in html.split('<').skip(1) {
            let name = tag.split(['>', ' ', '\n']).next().unwrap();
            match name.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name)),
                None if VOID.contains(&name) => {}
                None => open.push(name),
            }
        }
        assert_eq!(open, Vec::<&str>::new());
    }

    /// The whole page of a small report. `UNCOPY_BLESS=1 cargo test -p xtask` writes it anew.
    #[test]
    fn a_small_report_looks_like_this() {
        let html = html_of(&small());
        assert_balanced(&html);
        // One tag a line, so that a difference can be read; the style has a file of its own.
        let style = include_str!("style.css");
        let lines = html.replace(style, "").replace("><", ">\n<") + "\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/evidence/page/small.html");
        if std::env::var_os("UNCOPY_BLESS").is_some() {
            std::fs::write(path, &lines).unwrap();
        }
        let expected = std::fs::read_to_string(path).unwrap();
        for (number, (found, expected)) in lines.lines().zip(expected.lines()).enumerate() {
            assert_eq!(found, expected, "line {} of {path}", number + 1);
        }
        assert_eq!(lines.len(), expected.len());
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let html = html_of(&small());
        for outside in ["<script", "src=", "@import", "url(", "rel=\"stylesheet\""] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.contains("&lt;no&gt; network") && html.contains("abc &amp; def"));
        assert!(html.contains("ext4/&lt;many&gt;/warm"));
    }

    #[test]
    fn every_table_of_the_texts_is_there_by_title() {
        let html = html_of(&Inputs::default());
        assert_balanced(&html);
        for title in [
            "Throughput Comparison (Linux NVMe)",
            "CPU Usage Comparison",
            "Small File Overhead",
            "Byte vector event benchmarks",
            "FIDL encode",
            "time ./msg_zerocopy",
            "NIC (requests / second)",
            "dummy (requests / second)",
        ] {
            assert!(html.contains(title), "{title}");
        }
        assert!(html.contains("not measured") && html.contains("contradicts itself"));
    }
}
