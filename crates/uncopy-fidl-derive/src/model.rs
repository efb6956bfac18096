//! Common parts of all kinds of types.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, DeriveInput, Error, GenericParam, Lifetime, Result, Type};

use crate::attributes::{MemberAttributes, Ordinal, TypeAttributes};

/// The type that the macro is applied to.
pub(crate) struct Subject<'a> {
    pub(crate) input: &'a DeriveInput,
    pub(crate) attributes: TypeAttributes,
    pub(crate) name: &'a Ident,
    /// Name of its view.
    pub(crate) view: Ident,
}

/// A field, or the payload of a variant.
pub(crate) struct Member<'a> {
    pub(crate) ident: Ident,
    /// Name in errors.
    pub(crate) label: String,
    pub(crate) ty: &'a Type,
    pub(crate) attributes: MemberAttributes,
    pub(crate) docs: Vec<&'a Attribute>,
    /// Name of its constraint.
    pub(crate) constant: Ident,
}

impl<'a> Member<'a> {
    pub(crate) fn new(
        index: usize,
        ident: &Ident,
        ty: &'a Type,
        attributes: &'a [Attribute],
    ) -> Result<Member<'a>> {
        Ok(Member {
            ident: ident.clone(),
            label: label_of(ident),
            ty,
            attributes: MemberAttributes::parse(attributes)?,
            docs: docs_of(attributes),
            constant: format_ident!("CONSTRAINT_{index}"),
        })
    }

    /// Returns its type for places without a lifetime.
    pub(crate) fn static_type(&self) -> Type {
        static_type(self.ty)
    }

    /// Returns the type with its own source position, so that errors are reported there.
    pub(crate) fn spanned_type(&self) -> TokenStream {
        let ty = self.static_type();
        quote_spanned!(self.ty.span()=> #ty)
    }
}

/// Name of a member in errors and in `Debug`.
pub(crate) fn label_of(ident: &Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}

pub(crate) fn docs_of(attributes: &[Attribute]) -> Vec<&Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).collect()
}

/// Removes the invisible groups that macros put around types.
pub(crate) fn peeled(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => peeled(&group.elem),
        Type::Paren(paren) => peeled(&paren.elem),
        other => other,
    }
}

struct Lengthen;

impl VisitMut for Lengthen {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        *lifetime = Lifetime::new("'static", lifetime.span());
    }

    fn visit_type_reference_mut(&mut self, reference: &mut syn::TypeReference) {
        visit_mut::visit_type_reference_mut(self, reference);
        let span = reference.and_token.span();
        reference.lifetime.get_or_insert_with(|| Lifetime::new("'static", span));
    }
}

pub(crate) fn static_type(ty: &Type) -> Type {
    let mut ty = ty.clone();
    Lengthen.visit_type_mut(&mut ty);
    ty
}

impl<'a> Subject<'a> {
    pub(crate) fn new(input: &'a DeriveInput, attributes: TypeAttributes) -> Result<Subject<'a>> {
        let parameter =
            input.generics.params.iter().find(|p| !matches!(p, GenericParam::Lifetime(_)));
        if let Some(parameter) = parameter {
            return Err(Error::new(parameter.span(), "FIDL types have no parameters: name a type"));
        }
        let view = format_ident!("{}View", input.ident);
        Ok(Subject { input, attributes, name: &input.ident, view })
    }

    /// Returns the documentation and attributes of the view: a generated line, and the type's own
    /// documentation.
    pub(crate) fn view_head(&self, about: &str) -> TokenStream {
        let docs = docs_of(&self.input.attrs);
        let gap = (!docs.is_empty()).then(|| quote!(#[doc = ""]));
        quote! {
            #[doc = #about]
            #gap
            #(#docs)*
            #[allow(dead_code)]
            #[derive(Clone, Copy, Debug)]
        }
    }

    /// Returns the documentation of a member of the view, if the type's own member has none.
    pub(crate) fn view_docs(&self, docs: &[&Attribute]) -> TokenStream {
        if !docs.is_empty() {
            return quote!(#(#docs)*);
        }
        let about = format!("As in [`{}`].", self.name);
        quote!(#[doc = #about])
    }

    /// Returns the type of a view of `members`. Without members it borrows nothing.
    pub(crate) fn view_of(&self, members: &[Member<'_>]) -> TokenStream {
        let view = &self.view;
        if members.is_empty() { quote!(#view) } else { quote!(#view<'a>) }
    }

    /// Whether it borrows its contents, so that it can only be encoded.
    pub(crate) fn borrows(&self) -> bool {
        !self.input.generics.params.is_empty()
    }

    /// Refuses an attribute that does not apply to `what`.
    pub(crate) fn refuse(&self, word: &str, span: Option<Span>, what: &str) -> Result<()> {
        match span {
            Some(span) => Err(Error::new(span, format!("`{word}` means nothing on {what}"))),
            None => Ok(()),
        }
    }

    /// Puts the generated code into a separate scope.
    pub(crate) fn scope(&self, items: &TokenStream) -> TokenStream {
        quote! {
            const _: () = {
                use ::uncopy_fidl::derived as __fidl;
                #[allow(unused_imports)]
                use ::uncopy_fidl::derived::OwningHandles as _;
                #items
            };
        }
    }

    /// Returns constants with the constraints of `members`, and the checks of value types.
    pub(crate) fn constants(&self, members: &[Member<'_>]) -> TokenStream {
        let constants = members.iter().map(|member| {
            let (constant, ty) = (&member.constant, member.spanned_type());
            let value = member
                .attributes
                .constraint
                .applied_to(quote!(<#ty as __fidl::Layout>::UNCONSTRAINED));
            quote! {
                const #constant: <#ty as __fidl::Layout>::Constraint = #value;
            }
        });
        let checks = members.iter().filter(|_| self.attributes.resource.is_none()).map(|member| {
            let ty = member.spanned_type();
            quote_spanned! {member.ty.span()=>
                const _: () = assert!(
                    !<#ty as __fidl::Layout>::HAS_HANDLES,
                    "a value type has no handles: add `#[fidl(resource = …)]` with their type"
                );
            }
        });
        quote!(#(#constants)* #(#checks)*)
    }

    /// Returns `impl Trait for Type`, with the type's lifetimes.
    pub(crate) fn implement(
        &self,
        which: &TokenStream,
        of: &TokenStream,
        body: &TokenStream,
    ) -> TokenStream {
        let (generics, _, _) = self.input.generics.split_for_impl();
        quote! {
            #[automatically_derived]
            impl #generics #which for #of { #body }
        }
    }

    /// Returns the type with its lifetimes.
    pub(crate) fn own(&self) -> TokenStream {
        let name = self.name;
        let (_, generics, _) = self.input.generics.split_for_impl();
        quote!(#name #generics)
    }

    /// Returns `impl Trait<Handle> for Type`: for the handles of a resource type, or for all.
    pub(crate) fn implement_for_handles(&self, which: &str, body: &TokenStream) -> TokenStream {
        let which = Ident::new(which, Span::call_site());
        let own = self.own();
        let lifetimes = self.input.generics.params.iter();
        match &self.attributes.resource {
            Some(handle) => self.implement(&quote!(__fidl::#which<#handle>), &own, body),
            None => quote! {
                #[automatically_derived]
                impl<#(#lifetimes,)* __H> __fidl::#which<__H> for #own { #body }
            },
        }
    }

    /// Returns the type of handles in code inside `implement_for_handles`.
    pub(crate) fn handle(&self) -> TokenStream {
        self.attributes.resource.as_ref().map_or(quote!(__H), |handle| quote!(#handle))
    }

    /// Makes the value of a member from its `view`. In a value type this works for any type of
    /// handles. If the member has handles although it must not ([`constants`](Self::constants)),
    /// that is the only error.
    pub(crate) fn value_of(&self, ty: &Type, view: &TokenStream) -> TokenStream {
        match &self.attributes.resource {
            Some(handle) => quote!(<#ty as __fidl::FromView<#handle>>::from_view(#view, handles)),
            None => quote!(__fidl::Owning::<#ty, __H>::NEW.from_view(#view, handles)),
        }
    }

    /// Reads a member from `inline`, like [`value_of`](Self::value_of) for a view.
    pub(crate) fn read(&self, member: &Member<'_>, inline: &TokenStream) -> TokenStream {
        let Member { ty, constant, .. } = member;
        let read = match &self.attributes.resource {
            Some(handle) => quote!(<#ty as __fidl::FromView<#handle>>::read),
            None => quote!(__fidl::Owning::<#ty, __H>::NEW.read),
        };
        quote!(#read(#inline, decoder, arriving, #constant, depth))
    }

    /// Reads a member from the payload of `envelope`, and returns its error.
    pub(crate) fn read_payload(&self, member: &Member<'_>, depth: &TokenStream) -> TokenStream {
        let (ty, label, read) = (member.ty, &member.label, self.read(member, &quote!(object)));
        let in_field = quote!(.map_err(|error| error.in_field(#label))?);
        quote! {{
            let size = <#ty as __fidl::Layout>::SIZE;
            let (object, depth, before) = envelope.open(size, decoder, #depth) #in_field;
            let value = #read #in_field;
            envelope.close(size, before, decoder) #in_field;
            value
        }}
    }

    /// Implements `Layout`.
    pub(crate) fn layout(&self, layout: &LayoutOf) -> TokenStream {
        let LayoutOf { size, align, is_flat, validity } = layout;
        let has_handles = self.attributes.resource.is_some();
        let body = quote! {
            const SIZE: usize = #size;
            const ALIGN: usize = #align;
            const IS_FLAT: bool = #is_flat;
            const HAS_HANDLES: bool = #has_handles;
            const VALIDITY: __fidl::Validity = #validity;
            type Constraint = __fidl::NoConstraint;
            const UNCONSTRAINED: __fidl::NoConstraint = __fidl::NoConstraint;
        };
        self.implement(&quote!(__fidl::Layout), &self.own(), &body)
    }

    /// Implements `Encode`. The bodies see `self`, `inline`, `out`, `at` and `depth`.
    pub(crate) fn encode(
        &self,
        inline: &TokenStream,
        rest: &TokenStream,
        further: &TokenStream,
    ) -> TokenStream {
        let body = quote! {
            #[inline]
            fn encode_inline(
                &self,
                inline: &mut [u8],
                _: __fidl::NoConstraint,
            ) -> __fidl::Result<()> {
                #inline
            }

            #[inline]
            fn encode_rest<'__v, __O: __fidl::Output<'__v>>(
                &'__v self,
                out: &mut __O,
                at: usize,
                _: __fidl::NoConstraint,
                depth: __fidl::Depth,
            ) -> __fidl::Result<()> {
                let _ = (&out, at, depth);
                #rest
            }

            #further
        };
        self.implement(&quote!(__fidl::Encode), &self.own(), &body)
    }

    /// Implements `Decode` with `view` as the type of views. The body sees `inline`, `decoder` and
    /// `depth`. `print`, which also sees `f`, is the body for a type that contains others.
    pub(crate) fn decode(
        &self,
        view: &TokenStream,
        body: &TokenStream,
        print: Option<&TokenStream>,
    ) -> TokenStream {
        let print = print.map(|print| {
            quote! {
                fn print<'a>(
                    inline: __fidl::Inline<'a>,
                    decoder: &mut __fidl::Decoder<'a, '_>,
                    _: __fidl::NoConstraint,
                    depth: __fidl::Depth,
                    f: &mut ::core::fmt::Formatter<'_>,
                ) -> ::core::fmt::Result {
                    let _ = (&inline, &decoder, depth);
                    #print
                }
            }
        });
        let body = quote! {
            type View<'a> = #view;
            type Slice<'a> = __fidl::Items<'a, Self>;

            #[inline]
            fn decode<'a>(
                inline: __fidl::Inline<'a>,
                decoder: &mut __fidl::Decoder<'a, '_>,
                _: __fidl::NoConstraint,
                depth: __fidl::Depth,
            ) -> __fidl::Result<#view> {
                let _ = (&decoder, depth);
                #body
            }

            fn decode_items<'a>(
                inline: __fidl::Inline<'a>,
                decoder: &mut __fidl::Decoder<'a, '_>,
                constraint: __fidl::NoConstraint,
                depth: __fidl::Depth,
            ) -> __fidl::Result<__fidl::Items<'a, Self>> {
                __fidl::Items::decode(inline, decoder, constraint, depth)
            }

            #print
        };
        self.implement(&quote!(__fidl::Decode), &self.own(), &body)
    }

    /// Implements `FromView`. The body sees `view` and `handles`. `read`, which sees `inline`,
    /// `decoder`, `arriving` and `depth`, is the body for a type that contains others.
    pub(crate) fn owned(&self, body: &TokenStream, read: Option<&TokenStream>) -> TokenStream {
        let handle = self.handle();
        let read = read.map(|read| {
            quote! {
                #[inline]
                fn read<'a>(
                    inline: __fidl::Inline<'a>,
                    decoder: &mut __fidl::Decoder<'a, '_>,
                    arriving: &mut __fidl::Arriving<'_, #handle>,
                    _: __fidl::NoConstraint,
                    depth: __fidl::Depth,
                ) -> __fidl::Result<Self> {
                    let _ = (&decoder, &arriving, depth);
                    #read
                }
            }
        });
        let body = quote! {
            fn from_view(
                view: <Self as __fidl::Decode>::View<'_>,
                handles: &mut __fidl::Handles<#handle>,
            ) -> Self {
                let _ = &handles;
                #body
            }

            fn from_items(
                items: Self::Slice<'_>,
                handles: &mut __fidl::Handles<#handle>,
            ) -> impl ::core::iter::Iterator<Item = Self> {
                items.into_values(handles)
            }

            #read
        };
        self.implement_for_handles("FromView", &body)
    }

    /// Implements `TakeHandles`. The body, which sees `self` and `leaving`, is left out for value
    /// types.
    pub(crate) fn take_handles(&self, body: &TokenStream) -> TokenStream {
        let handle = self.handle();
        let body = match &self.attributes.resource {
            None => TokenStream::new(),
            Some(_) => quote! {
                fn take_handles(
                    &mut self,
                    leaving: &mut __fidl::Leaving<'_, #handle>,
                    _: __fidl::NoConstraint,
                ) -> __fidl::Result<()> {
                    let _ = &leaving;
                    #body
                }
            },
        };
        self.implement_for_handles("TakeHandles", &body)
    }
}

/// Members of `Layout`, as expressions.
pub(crate) struct LayoutOf {
    pub(crate) size: TokenStream,
    pub(crate) align: TokenStream,
    pub(crate) is_flat: TokenStream,
    pub(crate) validity: TokenStream,
}

/// Checks that every member has a separate ordinal that is not reserved.
pub(crate) fn check_ordinals(
    members: &[(Span, Option<Ordinal>)],
    reserved: &[Ordinal],
    max: u64,
) -> Result<()> {
    let mut seen: Vec<u64> = Vec::new();
    for (span, ordinal) in members {
        let Some(Ordinal { number, span }) = *ordinal else {
            return Err(Error::new(*span, "it has no ordinal: add `#[fidl(ordinal = …)]`"));
        };
        if number > max {
            return Err(Error::new(span, format!("ordinal {number}, {max} at most")));
        }
        if seen.contains(&number) {
            return Err(Error::new(span, format!("ordinal {number} is there twice")));
        }
        if reserved.iter().any(|reserved| reserved.number == number) {
            return Err(Error::new(span, format!("ordinal {number} is reserved")));
        }
        seen.push(number);
    }
    Ok(())
}
