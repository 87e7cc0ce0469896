use std::collections::{BTreeMap, BTreeSet};

/// For each node, its successors; targets that aren't keys are ignored.
pub(super) type Graph = BTreeMap<String, BTreeSet<String>>;

/// The circles of a graph: its strongly connected components of at least two nodes, in order of names.
pub(super) fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|node| (node.as_str(), reachable(graph, node))).collect();
    let mut circles = Vec::new();
    let mut seen = BTreeSet::new();
    for node in graph.keys().map(String::as_str) {
        if seen.contains(node) {
            continue;
        }
        let circle: BTreeSet<&str> = reached[node].iter().copied().filter(|to| reached[to].contains(node)).collect();
        seen.extend(circle.iter().copied());
        if circle.len() > 1 {
            circles.push(circle.into_iter().map(str::to_owned).collect());
        }
    }
    circles
}

fn reachable<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&BTreeSet<String>> = graph.get(from).into_iter().collect();
    while let Some(targets) = open.pop() {
        for (node, next) in targets.iter().filter_map(|target| graph.get_key_value(target)) {
            if found.insert(node.as_str()) {
                open.push(next);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(edges: &[(&str, &[&str])]) -> Vec<String> {
        let targets = |to: &[&str]| to.iter().map(|node| (*node).to_owned()).collect();
        let graph = edges.iter().map(|(from, to)| ((*from).to_owned(), targets(to))).collect();
        circles(&graph).into_iter().map(|circle| circle.into_iter().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn a_graph_without_a_way_back_has_no_circle() {
        assert_eq!(found(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[]), ("d", &["d", "elsewhere"])]), [""; 0]);
    }

    #[test]
    fn circles_that_share_a_node_are_one() {
        let edges: &[(&str, &[&str])] =
            &[("a", &["b"]), ("b", &["c"]), ("c", &["b", "d"]), ("d", &["c"]), ("x", &["y"]), ("y", &["x", "a"])];
        assert_eq!(found(edges), ["b c d", "x y"]);
    }
}
