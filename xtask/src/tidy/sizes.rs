//! Advice: no file above 600 lines, no function above 70, none with more than 6 parameters.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::source::Source;
use crate::finding::RuleFinding;

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
const PARAMETERS: usize = 6;

pub(super) fn advise(source: &Source, advice: &mut Vec<RuleFinding>) {
    let lines = source.text.lines().count();
    if lines > FILE_LINES {
        let message =
            format!("{lines} lines, above {FILE_LINES}: give each noun a file of its own");
        advice.push(source.finding(Span::call_site(), message));
    }
    Functions { source, advice }.visit_file(&source.syntax);
}

/// Prints all of it, or how much there is.
pub(super) fn print(advice: &[RuleFinding], is_listed: bool) {
    if is_listed {
        advice.iter().for_each(|finding| println!("advice: {finding}"));
    } else if !advice.is_empty() {
        println!(
            "advice about sizes: {} places; `cargo xtask tidy --advice` lists them",
            advice.len()
        );
    }
}

struct Functions<'a> {
    source: &'a Source,
    advice: &'a mut Vec<RuleFinding>,
}

impl Functions<'_> {
    fn check(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (name, span) = (&signature.ident, signature.span());
        let lines = block.span().end().line - span.start().line + 1;
        let mut advise = |message| self.advice.push(self.source.finding(span, message));
        if lines > FUNCTION_LINES {
            advise(format!("fn {name}: {lines} lines: name its steps as functions"));
        }
        if signature.inputs.len() > PARAMETERS {
            let count = signature.inputs.len();
            advise(format!("fn {name}: {count} parameters: which of them are one thing?"));
        }
    }
}

impl<'a> Visit<'a> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.check(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        self.check(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::messages;
    use super::advise;

    #[test]
    fn long_files_and_functions_are_advised_against() {
        let function =
            |lines: usize| format!("fn long() {{\n{}}}\n", "    work();\n".repeat(lines - 2));
        assert!(messages("a.rs", &function(70), advise).is_empty());
        let found = messages("a.rs", &function(71), advise);
        assert!(found[0].starts_with("1: fn long: 71 lines"), "{found:?}");
        assert!(messages("a.rs", &"// x\n".repeat(600), advise).is_empty());
        assert!(messages("a.rs", &"// x\n".repeat(601), advise)[0].contains("601 lines"));
        let many = "impl A { fn f(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8) {} }";
        assert!(messages("a.rs", many, advise)[0].contains("7 parameters"));
    }
}
