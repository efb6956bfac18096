//! Numbers for people: pure.

/// Three digits that count, thousands apart.
pub(super) fn plain(value: f64) -> String {
    let magnitude = value.abs();
    let digits = match magnitude {
        0.0 => 0,
        m if m >= 99.95 => 0,
        m if m >= 9.995 => 1,
        m if m >= 0.9995 => 2,
        // As many as show three of them.
        m => (2 - m.log10().floor() as i32).clamp(3, 9) as usize,
    };
    let text = format!("{value:.digits$}");
    let (whole, part) = match text.split_once('.') {
        Some((whole, part)) => (whole, part.trim_end_matches('0')),
        None => (text.as_str(), ""),
    };
    let whole = grouped(whole).replacen('-', "−", 1);
    if part.is_empty() { whole } else { format!("{whole}.{part}") }
}

/// All digits that it has, thousands apart.
pub(super) fn exact(value: f64) -> String {
    let text = format!("{value}");
    let whole = text.split('.').next().unwrap_or_default();
    grouped(whole).replacen('-', "−", 1) + &text[whole.len()..]
}

fn grouped(whole: &str) -> String {
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        // Numbers of four digits are read at a glance.
        if index > 0 && digits.len() > 4 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time.
pub(super) fn seconds(value: f64) -> String {
    let (scale, unit) = match value.abs() {
        s if s >= 0.9995 => (1.0, "s"),
        s if s >= 0.9995e-3 => (1e3, "ms"),
        s if s >= 0.9995e-6 => (1e6, "µs"),
        _ => (1e9, "ns"),
    };
    format!("{} {unit}", plain(value * scale))
}

/// A size. Small ones that are no whole KiB are what somebody chose, and stay as they are.
pub(super) fn bytes(value: f64) -> String {
    const UNITS: [(f64, &str); 3] =
        [(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB")];
    if value < 131_072.0 && value.fract() == 0.0 && value % 1024.0 != 0.0 {
        return format!("{} B", exact(value));
    }
    match UNITS.iter().find(|(size, _)| value >= *size) {
        Some((size, unit)) => format!("{} {unit}", plain(value / size)),
        None => format!("{} B", plain(value)),
    }
}

/// A figure with the unit of its row.
pub(super) fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "s" => seconds(value),
        "ns" => seconds(value / 1e9),
        "B" => bytes(value),
        _ => format!("{} {unit}", plain(value)).trim_end().to_owned(),
    }
}

/// A count, or bytes with their unit: `64`, `4096B`, `4KiB`, `1 GiB`.
pub(super) fn parse(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let count: f64 = text[..end].parse().ok()?;
    let unit = match text[end..].trim() {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => return None,
    };
    (count > 0.0).then_some(count * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        for (value, expected) in [
            (0.0, "0"),
            (0.001_234_5, "0.00123"),
            (0.5, "0.5"),
            (1.0, "1"),
            (1.25, "1.25"),
            (12.345, "12.3"),
            (99.99, "100"),
            (4321.0, "4321"),
            (65_280.0, "65,280"),
            (2_396_600.0, "2,396,600"),
            (-6.7, "−6.7"),
            (-12_345.0, "−12,345"),
        ] {
            assert_eq!(plain(value), expected, "{value}");
        }
    }

    #[test]
    fn every_digit_of_others() {
        for (value, expected) in
            [(1.988, "1.988"), (129_909.0, "129,909"), (-4.0, "−4"), (0.049, "0.049")]
        {
            assert_eq!(exact(value), expected);
        }
    }

    #[test]
    fn units_are_scaled() {
        for (value, unit, expected) in [
            (1.5, "s", "1.5 s"),
            (0.00123, "s", "1.23 ms"),
            (53.2, "ns", "53.2 ns"),
            (12_345.0, "ns", "12.3 µs"),
            (512.0, "B", "512 B"),
            (8000.0, "B", "8000 B"),
            (65_280.0, "B", "65,280 B"),
            (4495.4, "B", "4.39 KiB"),
            (0.0, "B", "0 B"),
            (67_108_864.0, "B", "64 MiB"),
            (3.0, "tx", "3 tx"),
            (3.0, "", "3"),
        ] {
            assert_eq!(quantity(value, unit), expected);
        }
    }

    #[test]
    fn numbers_in_names() {
        for (text, expected) in [
            ("64", Some(64.0)),
            ("4096B", Some(4096.0)),
            ("4KiB", Some(4096.0)),
            ("1 GiB", Some(1_073_741_824.0)),
            ("8000B, mixed", None),
            ("each region of 64", None),
            ("", None),
            ("0", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
