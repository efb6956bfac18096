//! Tables: optional envelopes, by ordinal.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{DataStruct, Error, Fields, GenericArgument, PathArguments, Result, Type};

use crate::model::{LayoutOf, Member, Subject, check_ordinals, peeled};

/// Maximum ordinal that FIDL's compiler allows in a table.
const MAX_ORDINAL: u64 = 64;

pub(crate) fn expand(subject: &Subject<'_>, data: &DataStruct) -> Result<TokenStream> {
    let attributes = &subject.attributes;
    subject.refuse("flexible", attributes.flexible, "a table, which always is")?;
    subject.refuse("plain", attributes.plain, "a table")?;
    let mut members = members(data)?;
    for member in &members {
        subject.refuse("unknown", member.attributes.unknown, "a table's field")?;
    }
    let ordinals: Vec<_> = members.iter().map(|m| (m.ident.span(), m.attributes.ordinal)).collect();
    check_ordinals(&ordinals, &attributes.reserved, MAX_ORDINAL)?;
    members.sort_by_key(ordinal);
    let constants = subject.constants(&members);
    let layout = subject.layout(&LayoutOf {
        size: quote!(__fidl::TABLE_SIZE),
        align: quote!(8),
        is_flat: quote!(false),
        validity: quote!(__fidl::Validity::Checked),
    });
    let encode = encode(subject, &members);
    let take = take_handles(subject, &members);
    if subject.borrows() {
        return Ok(subject.scope(&quote!(#constants #layout #encode #take)));
    }
    let view = view(subject, data, &members);
    let decode = decode(subject, &members);
    let from_view = from_view(subject, &members);
    let scope = subject.scope(&quote!(#constants #layout #encode #take #decode #from_view));
    Ok(quote!(#view #scope))
}

fn ordinal(member: &Member<'_>) -> u64 {
    member.attributes.ordinal.map_or(0, |ordinal| ordinal.number)
}

fn position(member: &Member<'_>) -> usize {
    usize::try_from(ordinal(member)).unwrap_or(0)
}

fn members(data: &DataStruct) -> Result<Vec<Member<'_>>> {
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(data.struct_token.span, "the fields of a table have names"));
    };
    let named = fields.named.iter().enumerate();
    named
        .filter_map(|(i, field)| Some((i, field.ident.as_ref()?, field)))
        .map(|(i, ident, field)| {
            let Some(ty) = inside_option(&field.ty) else {
                let message = "a table's field may be absent: write Option<…>";
                return Err(Error::new(field.ty.span(), message));
            };
            Member::new(i, ident, ty, &field.attrs)
        })
        .collect()
}

/// Returns the `T` of `Option<T>`.
fn inside_option(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = peeled(ty) else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(ty) if last.ident == "Option" => Some(ty),
        _ => None,
    }
}

fn encode(subject: &Subject<'_>, members: &[Member<'_>]) -> TokenStream {
    let highest = members.iter().rev().map(|member| {
        let (ident, ordinal) = (&member.ident, position(member));
        quote!(if self.#ident.is_some() { #ordinal } else)
    });
    let count = quote!(let count: usize = #(#highest)* { 0 };);
    let envelopes = members.iter().map(|member| {
        let Member { ident, label, ty, constant, .. } = member;
        let index = position(member).saturating_sub(1);
        quote! {
            if let Some(value) = &self.#ident {
                let at = at + #index * __fidl::ENVELOPE_SIZE;
                __fidl::encode_envelope::<#ty, __O>(value, out, at, #constant, depth)
                    .map_err(|error| error.in_field(#label))?;
            }
        }
    });
    let inline = quote! {
        #count
        __fidl::encode_header(inline, count);
        Ok(())
    };
    let rest = quote! {
        #count
        if count == 0 {
            return Ok(());
        }
        let depth = depth.deeper()?;
        let at = out.grow(count * __fidl::ENVELOPE_SIZE)?;
        #(#envelopes)*
        Ok(())
    };
    subject.encode(&inline, &rest, &TokenStream::new())
}

fn take_handles(subject: &Subject<'_>, members: &[Member<'_>]) -> TokenStream {
    let handle = subject.handle();
    let taken = members.iter().map(|Member { ident, label, ty, constant, .. }| {
        quote! {
            if let Some(value) = &mut self.#ident {
                <#ty as __fidl::TakeHandles<#handle>>::take_handles(value, leaving, #constant)
                    .map_err(|error| error.in_field(#label))?;
            }
        }
    });
    subject.take_handles(&quote!(#(#taken)* Ok(())))
}

fn view(subject: &Subject<'_>, data: &DataStruct, members: &[Member<'_>]) -> TokenStream {
    let (name, visibility) = (subject.name, &subject.input.vis);
    let about = format!("A [`{name}`] in a message. Members that are not known are passed over.");
    let fields = members.iter().map(|member| {
        let Member { ident, ty, docs, .. } = member;
        let field = data.fields.iter().find(|field| field.ident.as_ref() == Some(ident));
        let visibility = field.map(|field| &field.vis);
        let docs = subject.view_docs(docs);
        quote! {
            #docs
            #visibility #ident:
                ::core::option::Option<<#ty as ::uncopy_fidl::derived::Decode>::View<'a>>
        }
    });
    let (head, view) = (subject.view_head(&about), subject.view_of(members));
    quote! {
        #head
        #visibility struct #view { #(#fields,)* }
    }
}

fn decode(subject: &Subject<'_>, members: &[Member<'_>]) -> TokenStream {
    let view = &subject.view;
    let absent = members.iter().map(|Member { ident, .. }| quote!(#ident: None));
    // Decoded in wire order, so that there are no branches on ordinals.
    let known = in_order(members, |member, envelope| {
        let Member { ident, label, ty, constant, .. } = member;
        quote! {
            if let Some(envelope) = #envelope {
                let value = envelope
                    .payload::<#ty>(decoder, #constant, envelopes.depth())
                    .map_err(|error| error.in_field(#label))?;
                view.#ident = Some(value);
            }
        }
    });
    let body = quote! {
        #[allow(unused_mut)]
        let mut view = #view { #(#absent),* };
        #known
        Ok(view)
    };
    let printed = in_order(members, |member, envelope| {
        let Member { label, ty, constant, .. } = member;
        quote! {{
            let (found, decoder) = (#envelope, &mut *decoder);
            let value = found.map(move |envelope| {
                __fidl::DebugOnce::new(move |f| {
                    envelope.print::<#ty>(decoder, #constant, envelopes.depth(), f)
                })
            });
            fields.field(#label, &value);
        }}
    });
    let name = view.to_string();
    let print = quote! {
        let mut walk = |f: &mut ::core::fmt::Formatter<'_>| {
            let mut fields = f.debug_struct(#name);
            #printed
            Ok(fields.finish())
        };
        walk(f).map_err(|_: __fidl::Error| ::core::fmt::Error)?
    };
    subject.decode(&subject.view_of(members), &body, Some(&print))
}

/// Generates code that walks through a table: `known` handles each member, with an expression of
/// the optional envelope; unknown members between them are skipped.
fn in_order(
    members: &[Member<'_>],
    known: impl Fn(&Member<'_>, TokenStream) -> TokenStream,
) -> TokenStream {
    let (mut code, mut next) = (TokenStream::new(), 0);
    for member in members {
        let (first, index) = (next, position(member).saturating_sub(1));
        next = index + 1;
        let gap = (first < index).then(|| quote!(envelopes.pass_over(#first, #index, decoder)?;));
        let known = known(member, quote!(envelopes.get(#index)?));
        code.extend(quote!(#gap #known));
    }
    quote! {
        let envelopes = __fidl::Envelopes::open(inline, decoder, depth)?;
        #code
        envelopes.pass_over(#next, usize::MAX, decoder)?;
    }
}

fn from_view(subject: &Subject<'_>, members: &[Member<'_>]) -> TokenStream {
    let fields = members.iter().map(|Member { ident, ty, .. }| {
        let from_view = subject.value_of(ty, &quote!(value));
        quote! {
            #ident: match view.#ident {
                Some(value) => Some(#from_view),
                None => None,
            }
        }
    });
    let absent = members.iter().map(|Member { ident, .. }| quote!(#ident: None));
    let read = in_order(members, |member, envelope| {
        let ident = &member.ident;
        let read = subject.read_payload(member, &quote!(envelopes.depth()));
        quote! {
            if let Some(envelope) = #envelope {
                owned.#ident = Some(#read);
            }
        }
    });
    let body = quote! {
        let _ = &view;
        Self { #(#fields),* }
    };
    let read = quote! {
        #[allow(unused_mut)]
        let mut owned = Self { #(#absent),* };
        #read
        Ok(owned)
    };
    subject.owned(&body, Some(&read))
}
