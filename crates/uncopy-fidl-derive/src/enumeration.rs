//! Enums: a number with named values.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{DataEnum, Error, Expr, Fields, Result, Type, Variant};

use crate::attributes::MemberAttributes;
use crate::model::{LayoutOf, Subject, peeled};

/// Derives an enum with numbers of this type.
pub(crate) fn expand(
    subject: &Subject<'_>,
    data: &DataEnum,
    number: &Ident,
) -> Result<TokenStream> {
    let attributes = &subject.attributes;
    subject.refuse("table", attributes.table, "an enum")?;
    subject.refuse("plain", attributes.plain, "an enum")?;
    subject.refuse("bits", attributes.bits.as_ref().map(|bits| bits.span), "an enum")?;
    let is_flexible = "an enum: mark the variant that carries unknown numbers as `unknown`";
    subject.refuse("flexible", attributes.flexible, is_flexible)?;
    if let Some(handle) = &attributes.resource {
        return Err(Error::new_spanned(handle, "an enum has no handles"));
    }
    let (mut members, mut unknown) = (Vec::new(), None);
    for variant in &data.variants {
        let own = MemberAttributes::parse(&variant.attrs)?;
        subject.refuse("ordinal", own.ordinal.map(|o| o.span), "an enum's member")?;
        subject.refuse("a constraint", own.constraint.span(), "an enum's member")?;
        match own.unknown {
            Some(span) if unknown.is_some() => {
                return Err(Error::new(span, "one variant carries all unknown numbers"));
            }
            Some(_) => unknown = Some(carrier(variant, number)?),
            None => members.push(member(variant)?),
        }
    }
    let layout = subject.layout(&LayoutOf {
        size: quote!(::core::mem::size_of::<#number>()),
        align: quote!(::core::mem::size_of::<#number>()),
        is_flat: quote!(true),
        validity: if unknown.is_some() {
            quote!(__fidl::Validity::Any)
        } else {
            quote!(__fidl::Validity::Checked)
        },
    });
    let encode = encode(subject, number, &members, unknown);
    let take = subject.take_handles(&TokenStream::new());
    let decode = decode(subject, number, &members, unknown);
    let from_view = subject.owned(&quote!(view), None);
    Ok(subject.scope(&quote!(#layout #encode #take #decode #from_view)))
}

/// Checks the variant for unknown numbers.
fn carrier<'a>(variant: &'a Variant, number: &Ident) -> Result<&'a Ident> {
    if let Fields::Unnamed(fields) = &variant.fields
        && fields.unnamed.len() == 1
        && let Some(Type::Path(path)) = fields.unnamed.first().map(|field| peeled(&field.ty))
        && path.path.is_ident(number)
    {
        return Ok(&variant.ident);
    }
    let message = format!("it carries the number: {}({number})", variant.ident);
    Err(Error::new_spanned(variant, message))
}

fn member(variant: &Variant) -> Result<(&Ident, &Expr)> {
    if !matches!(variant.fields, Fields::Unit) {
        let message = "a member of a FIDL enum has no payload; without #[repr(…)] this is a union";
        return Err(Error::new_spanned(&variant.fields, message));
    }
    match &variant.discriminant {
        Some((_, value)) => Ok((&variant.ident, value)),
        None => Err(Error::new_spanned(variant, "a member says its number: A = 1")),
    }
}

fn encode(
    subject: &Subject<'_>,
    number: &Ident,
    members: &[(&Ident, &Expr)],
    unknown: Option<&Ident>,
) -> TokenStream {
    let known = members.iter().map(|(ident, value)| quote!(Self::#ident => #value));
    let carried = unknown.map(|ident| quote!(Self::#ident(number) => *number,));
    let inline = quote! {
        let number: #number = match self { #(#known,)* #carried };
        inline.copy_from_slice(&number.to_le_bytes());
        Ok(())
    };
    subject.encode(&inline, &quote!(Ok(())), &TokenStream::new())
}

fn decode(
    subject: &Subject<'_>,
    number: &Ident,
    members: &[(&Ident, &Expr)],
    unknown: Option<&Ident>,
) -> TokenStream {
    let names: Vec<Ident> =
        (0..members.len()).map(|index| format_ident!("MEMBER_{index}")).collect();
    let constants =
        members.iter().zip(&names).map(|((_, value), name)| quote!(const #name: #number = #value;));
    let known =
        members.iter().zip(&names).map(|((ident, _), name)| quote!(#name => Ok(Self::#ident)));
    let other = match unknown {
        Some(ident) => quote!(number => Ok(Self::#ident(number))),
        None => quote! {
            number => Err(inline.breaks(__fidl::Rule::UnknownEnumMember {
                found: i128::from(number),
            }))
        },
    };
    subject.decode(
        &quote!(Self),
        &quote! {
            #(#constants)*
            match #number::from_le_bytes(inline.array()) { #(#known,)* #other }
        },
        None,
    )
}
