// Which class has which colour. Of many classes eight have one: the commonest, or while something is taken
// away those that this is about; the others are grey.

const SLOTS = 8;

export function palette(report) {
  const usual = report.classes.map((one) => one.colour);
  let slots = usual;
  const many = report.classes.length > SLOTS;
  const slot = (index) => (index >= 0 && index < slots.length ? slots[index] : -1);
  return {
    slot,
    // The name of the CSS variable with a class's colour.
    colour(index) {
      if (!report.coloured_by) return "--class-0";
      return slot(index) >= 0 ? `--class-${slot(index)}` : "--class-other";
    },
    // The classes that matter now, the first first; those with a colour of their own keep it.
    attend(classes) {
      slots = usual;
      const wanted = [...new Set(classes)].filter((index) => index >= 0).slice(0, SLOTS);
      if (!many || !wanted.length) return;
      const taken = new Set(wanted.map((index) => usual[index]).filter((own) => own >= 0));
      const free = Array.from({ length: SLOTS }, (_, own) => own).filter((own) => !taken.has(own));
      slots = usual.map((own, index) => (wanted.includes(index) ? own : -1));
      for (const index of wanted) if (slots[index] < 0) slots[index] = free.shift();
    },
  };
}

// What a state is about: the removed nodes' own classes, where predictions go, their neighbours.
export function classesOf({ removed, effect, neighbours }, data) {
  const counts = new Map();
  const add = (index, weight) => counts.set(index, (counts.get(index) ?? 0) + weight);
  for (const [from, to, amount] of effect?.moves ?? []) {
    add(from, 10 * amount);
    add(to, 10 * amount);
  }
  effect?.node?.forEach((position, at) => add(data.classOf(position), effect.change[at]));
  for (const position of neighbours ?? []) add(data.classOf(position), 0.1);
  const others = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
  return [...removed.map(data.classOf), ...others];
}
