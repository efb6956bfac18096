//! The attributes `#[fidl(…)]` and `#[repr(…)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, LitInt, Result, Token, Type};

/// Attributes of a type.
#[derive(Default)]
pub(crate) struct TypeAttributes {
    pub(crate) table: Option<Span>,
    pub(crate) plain: Option<Span>,
    pub(crate) flexible: Option<Span>,
    pub(crate) bits: Option<Bits>,
    /// Type of the handles, for a resource type.
    pub(crate) resource: Option<Type>,
    pub(crate) reserved: Vec<Ordinal>,
    /// The integer in `#[repr(…)]`.
    pub(crate) number: Option<Ident>,
}

/// Names and values of the bits.
pub(crate) struct Bits {
    pub(crate) span: Span,
    pub(crate) members: Vec<(Ident, Expr)>,
}

/// An ordinal and its position in the source.
#[derive(Clone, Copy)]
pub(crate) struct Ordinal {
    pub(crate) number: u64,
    pub(crate) span: Span,
}

/// Attributes of a field or a variant.
#[derive(Default)]
pub(crate) struct MemberAttributes {
    pub(crate) constraint: Constraint,
    pub(crate) ordinal: Option<Ordinal>,
    pub(crate) unknown: Option<Span>,
}

/// Constraint on a value beyond its type.
#[derive(Default)]
pub(crate) struct Constraint {
    /// Methods of the type's constraint, with their arguments.
    calls: Vec<(&'static str, Span, Expr)>,
    item: Option<(Span, Box<Constraint>)>,
}

impl TypeAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<TypeAttributes> {
        let mut parsed = TypeAttributes::default();
        for attribute in attributes {
            if attribute.path().is_ident("fidl") {
                attribute.parse_nested_meta(|meta| parsed.word(&meta))?;
            } else if attribute.path().is_ident("repr") {
                attribute.parse_nested_meta(|meta| parsed.repr(&meta))?;
            }
        }
        Ok(parsed)
    }

    fn word(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let span = meta.path.span();
        if meta.path.is_ident("table") {
            self.table = Some(span);
        } else if meta.path.is_ident("plain") {
            self.plain = Some(span);
        } else if meta.path.is_ident("flexible") {
            self.flexible = Some(span);
        } else if meta.path.is_ident("bits") {
            let mut members = Vec::new();
            meta.parse_nested_meta(|member| {
                members.push((member.path.require_ident()?.clone(), member.value()?.parse()?));
                Ok(())
            })?;
            self.bits = Some(Bits { span, members });
        } else if meta.path.is_ident("resource") {
            self.resource = Some(meta.value()?.parse()?);
        } else if meta.path.is_ident("reserved") {
            let content;
            syn::parenthesized!(content in meta.input);
            let ordinals = content.parse_terminated(Ordinal::parse, Token![,])?;
            self.reserved.extend(ordinals);
        } else {
            return Err(meta.error(
                "no attribute of a FIDL type: table, bits(…), flexible, plain, resource = …, \
                 reserved(…)",
            ));
        }
        Ok(())
    }

    fn repr(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        const NUMBERS: [&str; 8] = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"];
        if let Some(word) = meta.path.get_ident()
            && NUMBERS.iter().any(|number| word == number)
        {
            self.number = Some(word.clone());
        } else if meta.input.peek(syn::token::Paren) {
            // Other arguments, `align(8)` or `packed(1)`, are left to rustc.
            let content;
            syn::parenthesized!(content in meta.input);
            content.parse::<TokenStream>()?;
        }
        Ok(())
    }
}

impl Ordinal {
    fn parse(input: syn::parse::ParseStream<'_>) -> Result<Ordinal> {
        let literal: LitInt = input.parse()?;
        let ordinal = Ordinal { number: literal.base10_parse()?, span: literal.span() };
        if ordinal.number == 0 {
            return Err(Error::new(ordinal.span, "ordinals begin with 1"));
        }
        Ok(ordinal)
    }
}

impl MemberAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<MemberAttributes> {
        let mut parsed = MemberAttributes::default();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("fidl")) {
            attribute.parse_nested_meta(|meta| parsed.word(&meta))?;
        }
        Ok(parsed)
    }

    fn word(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("ordinal") {
            self.ordinal = Some(Ordinal::parse(meta.value()?)?);
        } else if meta.path.is_ident("unknown") {
            self.unknown = Some(meta.path.span());
        } else if !self.constraint.word(meta)? {
            return Err(meta.error(
                "no attribute of a FIDL field: ordinal = …, max = …, item(…), kind = …, \
                 rights = …, unknown",
            ));
        }
        Ok(())
    }
}

impl Constraint {
    pub(crate) fn span(&self) -> Option<Span> {
        let call = self.calls.first().map(|(_, span, _)| *span);
        call.or(self.item.as_ref().map(|(span, _)| *span))
    }

    fn word(&mut self, meta: &ParseNestedMeta<'_>) -> Result<bool> {
        let span = meta.path.span();
        for (word, method) in
            [("max", "with_max"), ("kind", "with_object_type"), ("rights", "with_rights")]
        {
            if meta.path.is_ident(word) {
                self.calls.push((method, span, meta.value()?.parse()?));
                return Ok(true);
            }
        }
        if !meta.path.is_ident("item") {
            return Ok(false);
        }
        let mut item = Constraint::default();
        meta.parse_nested_meta(|meta| match item.word(&meta)? {
            true => Ok(()),
            false => Err(meta.error("no constraint: max = …, kind = …, rights = …, item(…)")),
        })?;
        self.item = Some((span, Box::new(item)));
        Ok(true)
    }

    /// Returns an expression: the constraint `base` with this one added.
    pub(crate) fn applied_to(&self, base: TokenStream) -> TokenStream {
        let mut constraint = base;
        for (method, span, argument) in &self.calls {
            let method = Ident::new(method, *span);
            constraint = quote_spanned!(*span=> #constraint.#method(#argument));
        }
        if let Some((span, item)) = &self.item {
            let of_item = item.applied_to(quote_spanned!(*span=> outer.item));
            constraint = quote_spanned! {*span=> {
                let outer = #constraint;
                outer.with_item(#of_item)
            }};
        }
        constraint
    }
}
