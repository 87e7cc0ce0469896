use super::term;
use crate::answer::Rows;

/// A list with one object per line.
pub(super) fn show(rows: &Rows) -> String {
    let mut out = String::from("[\n");
    let mut separator = "";
    for mut object in rows.objects() {
        for value in object.values_mut() {
            *value = term::typed(value.take());
        }
        out.push_str(separator);
        out.push_str(&format!("{}\n", serde_json::Value::Object(object)));
        separator = ",";
    }
    out.push_str("]\n");
    out
}
