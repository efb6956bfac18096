//! No file above 600 lines, no function above 70.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::source::Source;
use crate::finding::Finding;

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;

pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    let lines = source.text.lines().count();
    if lines > FILE_LINES {
        findings.push(source.finding(
            Span::call_site(),
            format!("{lines} lines, {FILE_LINES} at most: give each noun in it a file of its own"),
        ));
    }
    Functions { source, findings }.visit_file(&source.syntax);
}

struct Functions<'a> {
    source: &'a Source,
    findings: &'a mut Vec<Finding>,
}

impl Functions<'_> {
    fn check(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let span = signature.span();
        let lines = block.span().end().line - span.start().line + 1;
        if lines > FUNCTION_LINES {
            let name = &signature.ident;
            self.findings.push(self.source.finding(
                span,
                format!("fn {name}: {lines} lines, {FUNCTION_LINES} at most: name its steps as functions"),
            ));
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

    fn visit_trait_item_fn(&mut self, function: &'a syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.check(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::messages;
    use super::check;

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    work();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_of_70_lines_passes_and_of_71_does_not() {
        assert!(messages("a.rs", &function(70), check).is_empty());
        let found = messages("a.rs", &function(71), check);
        assert!(found[0].starts_with("1: fn long: 71 lines"), "{found:?}");
    }

    #[test]
    fn methods_and_default_methods_are_functions_too() {
        let text = format!("impl T {{\n{}}}\ntrait U {{\n{}}}\n", function(71), function(71));
        assert_eq!(messages("a.rs", &text, check).len(), 2);
    }

    #[test]
    fn a_file_of_601_lines_is_too_long() {
        assert!(messages("a.rs", &"// x\n".repeat(600), check).is_empty());
        let found = messages("a.rs", &"// x\n".repeat(601), check);
        assert!(found[0].contains("601 lines"), "{found:?}");
    }
}
