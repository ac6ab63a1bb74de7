//! Sparse transition matrices of finite Markov chains.

/// Transition probabilities in compressed rows: row s lists the states that can follow s.
#[derive(Clone, Debug)]
pub(crate) struct Transitions {
    start: Vec<usize>,
    to: Vec<u32>,
    probability: Vec<f64>,
}

impl Default for Transitions {
    fn default() -> Self {
        Self {
            start: vec![0],
            to: Vec::new(),
            probability: Vec::new(),
        }
    }
}

impl Transitions {
    /// Adds the row of the next state.
    pub(crate) fn push_row(&mut self, row: impl Iterator<Item = (u32, f64)>) {
        for (to, probability) in row {
            self.to.push(to);
            self.probability.push(probability);
        }
        self.start.push(self.to.len());
    }

    /// How many states there are.
    pub(crate) fn states(&self) -> usize {
        self.start.len() - 1
    }

    /// How many transitions there are.
    pub(crate) fn len(&self) -> usize {
        self.to.len()
    }

    /// The transitions out of `s`.
    pub(crate) fn row(&self, s: usize) -> impl Iterator<Item = (usize, f64)> {
        let range = self.start[s]..self.start[s + 1];
        self.to[range.clone()]
            .iter()
            .map(|&to| to as usize)
            .zip(self.probability[range].iter().copied())
    }

    /// The matrix of the columns: row s of it lists the states that s can follow, in ascending order.
    pub(crate) fn transposed(&self) -> Self {
        let n = self.states();
        let mut start = vec![0; n + 1];
        for &to in &self.to {
            start[to as usize + 1] += 1;
        }
        for s in 0..n {
            start[s + 1] += start[s];
        }
        let mut free = start.clone();
        let mut from = vec![0; self.len()];
        let mut probability = vec![0.0; self.len()];
        for s in 0..n {
            for (to, p) in self.row(s) {
                from[free[to]] = s as u32;
                probability[free[to]] = p;
                free[to] += 1;
            }
        }
        Self {
            start,
            to: from,
            probability,
        }
    }

    /// Marks in `seen` all that can be reached from `s` without passing what is marked already.
    fn mark_reachable(&self, s: usize, seen: &mut [bool]) {
        let mut stack = vec![s];
        seen[s] = true;
        while let Some(s) = stack.pop() {
            for (to, _) in self.row(s) {
                if !seen[to] {
                    seen[to] = true;
                    stack.push(to);
                }
            }
        }
    }

    /// The states that are visited for ever, in ascending order, where `columns` is the transposed matrix; `None`
    /// where there are several separate sets of such states.
    pub(crate) fn recurrent_class(&self, columns: &Self) -> Option<Vec<usize>> {
        // Search backwards from every state not seen yet. Whatever leads to the last root was seen from it or not at
        // all; so whatever the last root leads to leads back to it: it is in a closed class.
        let mut seen = vec![false; self.states()];
        let mut root = 0;
        for s in 0..self.states() {
            if !seen[s] {
                root = s;
                columns.mark_reachable(s, &mut seen);
            }
        }
        let mut leads_there = vec![false; self.states()];
        columns.mark_reachable(root, &mut leads_there);
        if leads_there.contains(&false) {
            return None;
        }
        let mut class = vec![false; self.states()];
        self.mark_reachable(root, &mut class);
        Some((0..self.states()).filter(|&s| class[s]).collect())
    }

    /// The chain on the states of a closed class, renumbered in the order of `class`.
    pub(crate) fn restricted(&self, class: &[usize]) -> Self {
        let mut number = vec![u32::MAX; self.states()];
        for (new, &old) in class.iter().enumerate() {
            number[old] = new as u32;
        }
        let mut chain = Self::default();
        for &s in class {
            chain.push_row(self.row(s).map(|(to, p)| (number[to], p)));
        }
        chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(rows: &[&[(u32, f64)]]) -> Transitions {
        let mut chain = Transitions::default();
        rows.iter().for_each(|row| chain.push_row(row.iter().copied()));
        chain
    }

    #[test]
    fn the_recurrent_class_is_found_behind_transient_states() {
        let chain = chain(&[&[(1, 1.0)], &[(2, 0.5), (1, 0.5)], &[(3, 1.0)], &[(2, 1.0)]]);
        assert_eq!(chain.recurrent_class(&chain.transposed()), Some(vec![2, 3]));
        let class = chain.restricted(&[2, 3]);
        assert_eq!(class.row(0).collect::<Vec<_>>(), [(1, 1.0)]);
    }

    #[test]
    fn two_recurrent_classes_are_none() {
        let chain = chain(&[&[(1, 0.5), (2, 0.5)], &[(1, 1.0)], &[(2, 1.0)]]);
        assert_eq!(chain.recurrent_class(&chain.transposed()), None);
    }
}
