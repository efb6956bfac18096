//! Protocols: turns the methods of a trait into a client, a service and events.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use sha2::{Digest, Sha256};
use syn::meta::ParseNestedMeta;
use syn::{
    Attribute, Error, FnArg, GenericArgument, ItemTrait, LitInt, LitStr, PathArguments, Result,
    ReturnType, TraitItem, TraitItemFn, Type,
};

use crate::model::{docs_of, peeled};

/// Arguments of `#[protocol(…)]`.
#[derive(Default)]
pub(crate) struct Arguments {
    library: Option<LitStr>,
    openness: Option<Ident>,
    is_async: bool,
}

impl Arguments {
    pub(crate) fn word(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("library") {
            self.library = Some(meta.value()?.parse()?);
            return Ok(());
        }
        if meta.path.is_ident("tokio") {
            self.is_async = true;
            return Ok(());
        }
        for (word, variant) in [("open", "Open"), ("ajar", "Ajar"), ("closed", "Closed")] {
            if meta.path.is_ident(word) {
                self.openness = Some(Ident::new(variant, Span::call_site()));
                return Ok(());
            }
        }
        Err(meta.error("no argument of a protocol: library = \"…\", open, ajar, closed, tokio"))
    }
}

/// A method or event.
struct Method<'a> {
    ident: &'a Ident,
    docs: Vec<&'a Attribute>,
    ordinal: u64,
    is_flexible: bool,
    is_event: bool,
    /// Name and type of the argument.
    payload: Option<(&'a Ident, &'a Type)>,
    answer: Answer<'a>,
}

enum Answer<'a> {
    None,
    /// A strict method that cannot fail: the type alone.
    Plain(Option<&'a Type>),
    /// A union with an error, of the method or of the framework.
    Outcome(Option<&'a Type>, Option<&'a Type>),
}

/// `#[fidl(…)]` on a method.
#[derive(Default)]
struct Words {
    is_flexible: bool,
    is_event: bool,
    ordinal: Option<u64>,
}

impl Words {
    fn parse(attributes: &[Attribute]) -> Result<Words> {
        let mut words = Words::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("fidl")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("flexible") {
                    words.is_flexible = true;
                } else if meta.path.is_ident("event") {
                    words.is_event = true;
                } else if meta.path.is_ident("ordinal") {
                    words.ordinal = Some(meta.value()?.parse::<LitInt>()?.base10_parse()?);
                } else {
                    return Err(meta.error("no attribute of a method: flexible, event, ordinal"));
                }
                Ok(())
            })?;
        }
        Ok(words)
    }
}

/// Computes an ordinal: the first eight bytes of the SHA-256 of `library/Protocol.Method` as a
/// little-endian number, without the highest bit, which is reserved (Fuchsia's RFC-0020, extended
/// to 64 bits).
fn ordinal_of(library: &str, protocol: &Ident, method: &Ident) -> u64 {
    let selector = format!("{library}/{protocol}.{}", camel_case(&method.to_string()));
    let hash = Sha256::digest(selector.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    u64::from_le_bytes(first) & (u64::MAX >> 1)
}

fn camel_case(name: &str) -> String {
    let words = name.trim_start_matches("r#").split('_');
    words
        .map(|word| {
            let mut letters = word.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        })
        .collect()
}

/// Returns the one or two type arguments of `Name<…>`.
fn arguments_of<'a>(ty: &'a Type, name: &str) -> Option<Vec<&'a Type>> {
    let Type::Path(path) = peeled(ty) else { return None };
    let last = path.path.segments.last().filter(|segment| segment.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    Some(types.collect())
}

/// Returns `None` for `()`.
fn payload_type(ty: &Type) -> Option<&Type> {
    match peeled(ty) {
        Type::Tuple(tuple) if tuple.elems.is_empty() => None,
        other => Some(other),
    }
}

impl<'a> Method<'a> {
    fn new(library: &str, protocol: &Ident, item: &'a TraitItemFn) -> Result<Method<'a>> {
        let words = Words::parse(&item.attrs)?;
        if let Some(body) = &item.default {
            return Err(Error::new_spanned(body, "a method of a protocol has no body"));
        }
        let mut inputs = item.sig.inputs.iter();
        let payload = match (inputs.next(), inputs.next()) {
            (None, _) => None,
            (Some(FnArg::Typed(argument)), None) => Some(argument_of(argument)?),
            (Some(receiver @ FnArg::Receiver(_)), _) => {
                return Err(Error::new_spanned(receiver, "the server's trait adds `&self`"));
            }
            (_, Some(second)) => {
                let message = "a method has one payload: name a struct for several";
                return Err(Error::new_spanned(second, message));
            }
        };
        let answer = match &item.sig.output {
            ReturnType::Default => Answer::None,
            ReturnType::Type(_, ty) => match arguments_of(ty, "Result").as_deref() {
                Some([success, failure]) => Answer::Outcome(payload_type(success), Some(failure)),
                Some(_) => {
                    return Err(Error::new_spanned(ty, "name both types: Result<Answer, Error>"));
                }
                None if words.is_flexible => Answer::Outcome(payload_type(ty), None),
                None => Answer::Plain(payload_type(ty)),
            },
        };
        if words.is_event && !matches!(answer, Answer::None) {
            return Err(Error::new_spanned(&item.sig.output, "an event has no answer"));
        }
        let ident = &item.sig.ident;
        Ok(Method {
            ident,
            docs: docs_of(&item.attrs),
            ordinal: words.ordinal.unwrap_or_else(|| ordinal_of(library, protocol, ident)),
            is_flexible: words.is_flexible,
            is_event: words.is_event,
            payload,
            answer,
        })
    }

    fn payload(&self) -> TokenStream {
        match self.payload {
            Some((_, ty)) => quote!(#ty),
            None => quote!(::uncopy_fidl_channel::NoPayload),
        }
    }

    /// Returns the type of the answer on the wire.
    fn answer(&self) -> TokenStream {
        match &self.answer {
            Answer::None => TokenStream::new(),
            Answer::Plain(Some(ty)) => quote!(#ty),
            Answer::Plain(None) => quote!(::uncopy_fidl_channel::NoPayload),
            Answer::Outcome(success, failure) => {
                let success =
                    success.map_or(quote!(::uncopy_fidl_channel::Empty), |ty| quote!(#ty));
                let failure = failure
                    .map_or(quote!(::uncopy_fidl_channel::derived::Infallible), |ty| quote!(#ty));
                let is_flexible = self.is_flexible;
                quote!(::uncopy_fidl_channel::MethodResult<#success, #failure, #is_flexible>)
            }
        }
    }

    fn header(&self) -> TokenStream {
        let ordinal = self.ordinal;
        let flexible = self.is_flexible.then(|| quote!(.flexible()));
        quote!(::uncopy_fidl_channel::derived::Header::one_way(#ordinal)#flexible)
    }

    /// Returns the parameter of a sending function, and the value to send.
    fn parameter(&self) -> (TokenStream, TokenStream) {
        match self.payload {
            Some((name, ty)) => {
                (quote!(#name: impl ::uncopy_fidl_channel::SendAs<#ty>,), quote!(#name))
            }
            None => (TokenStream::new(), quote!(::uncopy_fidl_channel::NoPayload)),
        }
    }
}

fn argument_of(argument: &syn::PatType) -> Result<(&Ident, &Type)> {
    match &*argument.pat {
        syn::Pat::Ident(name) => Ok((&name.ident, &argument.ty)),
        other => Err(Error::new_spanned(other, "the payload has a name")),
    }
}

pub(crate) fn expand(arguments: &Arguments, item: &ItemTrait) -> Result<TokenStream> {
    let Some(library) = &arguments.library else {
        let message = "ordinals are made of the library's name: #[protocol(library = \"…\")]";
        return Err(Error::new_spanned(&item.ident, message));
    };
    let mut methods = Vec::new();
    for member in &item.items {
        let TraitItem::Fn(function) = member else {
            return Err(Error::new_spanned(member, "a protocol has methods and events only"));
        };
        methods.push(Method::new(&library.value(), &item.ident, function)?);
    }
    for (index, method) in methods.iter().enumerate() {
        if method.ordinal == 0 || methods[..index].iter().any(|m| m.ordinal == method.ordinal) {
            let message = "its ordinal is 0 or there twice: choose #[fidl(ordinal = …)]";
            return Err(Error::new_spanned(method.ident, message));
        }
    }
    let open = Ident::new("Open", Span::call_site());
    let openness = arguments.openness.as_ref().unwrap_or(&open);
    let openness = quote!(::uncopy_fidl_channel::Openness::#openness);
    let (name, visibility, docs) = (&item.ident, &item.vis, docs_of(&item.attrs));
    let marker = quote! {
        #(#docs)*
        #[allow(dead_code)]
        #[derive(Debug, Clone, Copy)]
        #visibility enum #name {}
    };
    let client = client(item, &methods, &openness, false);
    let async_client = arguments.is_async.then(|| self::client(item, &methods, &openness, true));
    let server = server(item, &methods, &openness);
    let events = events(item, &methods);
    Ok(quote!(#marker #client #async_client #server #events))
}

/// Generates the client: a function for each method, and one for events.
fn client(
    item: &ItemTrait,
    methods: &[Method<'_>],
    openness: &TokenStream,
    is_async: bool,
) -> TokenStream {
    let (name, visibility) = (&item.ident, &item.vis);
    let prefix = if is_async { "Async" } else { "" };
    let inner = format_ident!("{prefix}Client");
    let client = format_ident!("{prefix}{name}Client");
    let functions = methods.iter().filter(|method| !method.is_event);
    let functions = functions.map(|method| client_function(method, is_async));
    let next_event = next_event(item, methods, openness, is_async);
    let about = format!("Calls the methods of [`{name}`].");
    let channel = if is_async {
        quote!(::uncopy_fidl_channel::derived::AsyncChannel)
    } else {
        quote!(::uncopy_fidl_channel::derived::Channel)
    };
    // Only the asynchronous client needs a runtime, so only the other one can be made from an end.
    let from_end = (!is_async).then(|| {
        quote! {
            /// Makes a client from an end received in a message. `None` if the handle was taken, or
            /// is not a channel.
            #[must_use]
            pub fn from_end(
                end: ::uncopy_fidl_channel::derived::ClientEnd<
                    #name,
                    ::uncopy_fidl_channel::FidlHandle,
                >,
            ) -> ::core::option::Option<Self> {
                ::uncopy_fidl_channel::#inner::from_end(end).map(Self)
            }
        }
    });
    quote! {
        #[doc = #about]
        #[allow(dead_code)]
        #[derive(Debug)]
        #visibility struct #client(::uncopy_fidl_channel::#inner<#name>);

        #[allow(dead_code)]
        impl #client {
            /// Makes a client that uses `channel`.
            #[must_use]
            pub fn new(channel: #channel) -> Self {
                Self(::uncopy_fidl_channel::#inner::new(channel))
            }

            #from_end

            /// Returns the channel.
            #[must_use]
            pub fn channel(&self) -> &#channel {
                self.0.channel()
            }

            #(#functions)*
            #next_event
        }
    }
}

/// Calls one method.
fn client_function(method: &Method<'_>, is_async: bool) -> TokenStream {
    let (asyncness, wait) =
        if is_async { (quote!(async), quote!(.await)) } else { Default::default() };
    let (deadline_parameter, deadline) = if is_async {
        Default::default()
    } else {
        (quote!(deadline: ::uncopy_fidl_channel::derived::Deadline,), quote!(, deadline))
    };
    let (ident, docs, header) = (method.ident, &method.docs, method.header());
    let (parameter, value) = method.parameter();
    if let Answer::None = method.answer {
        return quote! {
            #(#docs)*
            ///
            /// # Errors
            /// Errors of the value or the channel; the server's epitaph.
            pub #asyncness fn #ident(
                &self,
                #parameter
            ) -> ::core::result::Result<(), ::uncopy_fidl_channel::Failure> {
                self.0.send(&#header, #value)#wait
            }
        };
    }
    let answer = method.answer();
    quote! {
        #(#docs)*
        ///
        /// # Errors
        /// Errors of the value, the channel or the answer; the server's epitaph.
        pub #asyncness fn #ident(
            &self,
            #parameter
            #deadline_parameter
        ) -> ::core::result::Result<
            ::uncopy_fidl_channel::Response<#answer>,
            ::uncopy_fidl_channel::Failure,
        > {
            self.0.call::<_, #answer>(&#header, #value #deadline)#wait
        }
    }
}

fn next_event(
    item: &ItemTrait,
    methods: &[Method<'_>],
    openness: &TokenStream,
    is_async: bool,
) -> Option<TokenStream> {
    let event = format_ident!("{}Event", item.ident);
    let events: Vec<&Method<'_>> = methods.iter().filter(|method| method.is_event).collect();
    if events.is_empty() {
        return None;
    }
    let known = events.iter().map(|method| {
        let (ordinal, variant) = (method.ordinal, variant(method));
        quote!(#ordinal => return Ok(#event::#variant(event.payload()?)),)
    });
    let (asyncness, parameter, wait) = if is_async {
        (quote!(async), TokenStream::new(), quote!(().await))
    } else {
        let parameter = quote!(deadline: ::uncopy_fidl_channel::derived::Deadline);
        (TokenStream::new(), parameter, quote!((deadline)))
    };
    Some(quote! {
        /// Waits for the next event. Unknown events are ignored if the protocol allows it.
        ///
        /// # Errors
        /// The server's epitaph; errors of the channel or the event.
        pub #asyncness fn next_event(
            &self,
            #parameter
        ) -> ::core::result::Result<#event, ::uncopy_fidl_channel::Failure> {
            loop {
                let event = self.0.next_event #wait?;
                match event.ordinal() {
                    #(#known)*
                    _ => event.unknown(#openness)?,
                }
            }
        }
    })
}

fn variant(method: &Method<'_>) -> Ident {
    Ident::new(&camel_case(&method.ident.to_string()), method.ident.span())
}

/// Generates the trait of a server, and the service that dispatches to it.
fn server(item: &ItemTrait, methods: &[Method<'_>], openness: &TokenStream) -> TokenStream {
    let (name, visibility) = (&item.ident, &item.vis);
    let (server, service) = (format_ident!("{name}Server"), format_ident!("{name}Service"));
    let functions = methods.iter().filter(|method| !method.is_event).map(|method| {
        let (ident, docs) = (method.ident, &method.docs);
        let parameter = method
            .payload
            .map(|(name, ty)| quote!(, #name: ::uncopy_fidl_channel::Request<'_, #ty>));
        let unit = quote!(());
        let answer = match &method.answer {
            Answer::None | Answer::Plain(None) | Answer::Outcome(None, None) => None,
            Answer::Plain(Some(ty)) | Answer::Outcome(Some(ty), None) => Some(quote!(#ty)),
            Answer::Outcome(success, Some(failure)) => {
                let success = success.map_or(unit, |ty| quote!(#ty));
                Some(quote!(::core::result::Result<#success, #failure>))
            }
        };
        let answer = answer.map(|answer| quote!(-> #answer));
        quote! {
            #(#docs)*
            fn #ident(&self #parameter) #answer;
        }
    });
    let known = methods.iter().filter(|method| !method.is_event).map(dispatched);
    let about = format!("Does what the methods of [`{name}`] ask.");
    let about_service = format!("Makes a service of a [`{server}`], for `serve`.");
    quote! {
        #[doc = #about]
        #[allow(dead_code)]
        #visibility trait #server {
            #(#functions)*

            /// Called for an unknown method that was ignored or answered.
            fn unknown_method(&self, ordinal: u64) {
                let _ = ordinal;
            }
        }

        #[doc = #about_service]
        #[allow(dead_code)]
        #[derive(Debug, Clone, Copy)]
        #visibility struct #service<S>(
            /// The server.
            pub S,
        );

        impl<S: #server> ::uncopy_fidl_channel::Service for #service<S> {
            fn dispatch(
                &self,
                interaction: ::uncopy_fidl_channel::Interaction<'_>,
            ) -> ::core::result::Result<(), ::uncopy_fidl_channel::Failure> {
                match interaction.ordinal() {
                    #(#known)*
                    _ => interaction
                        .unknown(#openness, |ordinal| self.0.unknown_method(ordinal)),
                }
            }
        }
    }
}

/// Generates the match arm of one method.
fn dispatched(method: &Method<'_>) -> TokenStream {
    let (ident, ordinal, payload) = (method.ident, method.ordinal, method.payload());
    let call = match method.payload {
        Some(_) => quote!(self.0.#ident(request)),
        None => quote!(self.0.#ident()),
    };
    let answer = method.answer();
    let success = quote!(::uncopy_fidl_channel::MethodResult::Success);
    let body = match &method.answer {
        Answer::None => {
            return quote! {
                #ordinal => interaction.one_way::<#payload>(|request| {
                    let _ = &request;
                    #call
                }),
            };
        }
        Answer::Plain(Some(_)) => call,
        Answer::Plain(None) => quote!({ #call; ::uncopy_fidl_channel::NoPayload }),
        Answer::Outcome(Some(_), None) => quote!(#success(#call)),
        Answer::Outcome(None, None) => {
            quote!({ #call; #success(::uncopy_fidl_channel::Empty {}) })
        }
        Answer::Outcome(Some(_), Some(_)) => quote!(#call.into()),
        Answer::Outcome(None, Some(_)) => {
            quote!(#call.map(|()| ::uncopy_fidl_channel::Empty {}).into())
        }
    };
    quote! {
        #ordinal => interaction.two_way::<#payload, #answer>(|request| {
            let _ = &request;
            #body
        }),
    }
}

/// Generates the sender of events, and the events as a client receives them.
fn events(item: &ItemTrait, methods: &[Method<'_>]) -> Option<TokenStream> {
    let (name, visibility) = (&item.ident, &item.vis);
    let (event, sender) = (format_ident!("{name}Event"), format_ident!("{name}EventSender"));
    let events: Vec<&Method<'_>> = methods.iter().filter(|method| method.is_event).collect();
    if events.is_empty() {
        return None;
    }
    let variants = events.iter().map(|method| {
        let (variant, payload, docs) = (variant(method), method.payload(), &method.docs);
        let about = docs.is_empty().then(|| {
            let about = format!("`{}`.", method.ident);
            quote!(#[doc = #about])
        });
        quote!(#(#docs)* #about #variant(::uncopy_fidl_channel::Response<#payload>),)
    });
    let functions = events.iter().map(|method| {
        let (ident, docs, header) = (method.ident, &method.docs, method.header());
        let (parameter, value) = method.parameter();
        quote! {
            #(#docs)*
            ///
            /// # Errors
            /// Errors of the value or the channel.
            pub fn #ident(
                &self,
                #parameter
            ) -> ::core::result::Result<(), ::uncopy_fidl_channel::Failure> {
                ::uncopy_fidl_channel::send_event(self.0, &#header, #value)
            }
        }
    });
    let about = format!("An event of [`{name}`].");
    let about_sender = format!("Sends the events of [`{name}`] over a server's channel.");
    Some(quote! {
        #[doc = #about]
        #[derive(Debug)]
        #[allow(dead_code)]
        #[non_exhaustive]
        #visibility enum #event { #(#variants)* }

        #[doc = #about_sender]
        #[allow(dead_code)]
        #[derive(Debug, Clone, Copy)]
        #visibility struct #sender<'a>(
            /// Returns the channel.
            pub &'a ::uncopy_fidl_channel::derived::Channel,
        );

        #[allow(dead_code)]
        impl #sender<'_> { #(#functions)* }
    })
}

#[cfg(test)]
mod tests {
    use proc_macro2::{Ident, Span};

    use super::{camel_case, ordinal_of};

    #[test]
    fn names_become_those_of_fidl() {
        for (rust, fidl) in [("echo", "Echo"), ("on_string_event", "OnStringEvent")] {
            assert_eq!(camel_case(rust), fidl);
        }
    }

    #[test]
    fn ordinals_are_the_hash_of_the_full_name() {
        let ident = |name| Ident::new(name, Span::call_site());
        // The first two are in the bindings that Fuchsia's compiler generates for
        // `fuchsia.unknown`, the others are from `sha256sum`. The hashes of those two have the
        // highest bit set.
        for (library, protocol, method, ordinal) in [
            ("fuchsia.unknown", "Queryable", "query", 0x2658_edee_9dec_fc06),
            ("fuchsia.unknown", "Cloneable", "clone", 0x20d8_a7ab_a216_8a79),
            ("fuchsia.examples", "Echo", "echo_string", 0x75b8_274e_52d9_a616),
            ("fuchsia.examples", "Echo", "send_string", 0x5ce4_c23c_86c5_d471),
        ] {
            let found = ordinal_of(library, &ident(protocol), &ident(method));
            assert_eq!(found, ordinal, "{library}/{protocol}.{method}");
        }
    }
}
