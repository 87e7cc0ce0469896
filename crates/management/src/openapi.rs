//! The description of the API, generated from its routes.

use serde_json::{Map, Value, json};

use crate::identity::SESSION_COOKIE;
use crate::route::{Access, Method, Route};

/// The document for these routes of a node with this version.
pub(crate) fn describe(routes: &[Route], version: &str) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let path = route.path.replace("{*", "{");
        let operations = paths.entry(path).or_insert_with(|| json!({}));
        operations[route.method.name().to_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Leveret's HTTP API",
            "description": "The management API of RabbitMQ, with Leveret's additions.",
            "version": version,
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "session": {"type": "apiKey", "in": "cookie", "name": SESSION_COOKIE},
            },
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error", "reason"],
                    "properties": {"error": {"type": "string"}, "reason": {}},
                },
            },
        },
    })
}

fn operation(route: &Route) -> Value {
    let parameters: Vec<Value> = route
        .parameters()
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let refusal = |text: &str| {
        json!({
            "description": text,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        })
    };
    let mut responses = json!({"default": refusal("Refused, with the reason")});
    let success = if route.method == Method::Get { "200" } else { "2XX" };
    responses[success] = json!({"description": "Done"});
    let mut operation = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "parameters": parameters,
        "responses": responses,
        "x-access": access(route.access),
    });
    if route.access != Access::Public {
        operation["security"] = json!([{"basic": []}, {"session": []}]);
        operation["responses"]["401"] = refusal("No login, a wrong one, or not enough rights");
    }
    if matches!(route.method, Method::Put | Method::Post) {
        operation["requestBody"] = json!({"content": {"application/json": {"schema": {"type": "object"}}}});
    }
    operation
}

fn operation_id(route: &Route) -> String {
    let words = route.path.split('/').filter(|word| !word.is_empty() && *word != "api");
    let words = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).replace(['-', '.'], "_"));
    format!("{}_{}", route.method.name().to_lowercase(), words.collect::<Vec<_>>().join("_"))
}

fn access(access: Access) -> &'static str {
    match access {
        Access::Public => "anybody",
        Access::Management => "management",
        Access::Vhost => "management, with permissions in the virtual host",
        Access::VhostOrMonitor => "management, with permissions in the virtual host, or monitoring",
        Access::Monitor => "monitoring",
        Access::Policymaker => "policymaker",
        Access::Administrator => "administrator",
        Access::UserOrMonitor => "the user itself, or monitoring",
        Access::UserOrAdministrator => "the user itself, or administrator",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn every_route_is_described_once() {
        let document = describe(ROUTES, "4.3.6");
        let mut ids = HashSet::new();
        for route in ROUTES {
            let operation = &document["paths"][route.path.replace("{*", "{")][route.method.name().to_lowercase()];
            assert_eq!(operation["summary"], route.summary, "{} {}", route.method.name(), route.path);
            let id = operation["operationId"].as_str().expect("an id").to_owned();
            assert!(ids.insert(id), "two routes are {}", operation["operationId"]);
            let named = operation["parameters"].as_array().expect("a list").len();
            assert_eq!(named, route.path.matches('{').count());
        }
        let described: usize = document["paths"]
            .as_object()
            .expect("paths")
            .values()
            .map(|path| path.as_object().map_or(0, Map::len))
            .sum();
        assert_eq!(described, ROUTES.len());
    }
}
