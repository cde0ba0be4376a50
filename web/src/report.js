// The page's script: fills the sections that need one, and shows them.

import { themeButton } from "./appearance.js";
import { canvas } from "./canvas.js";
import { charts } from "./charts.js";
import { finder } from "./finder.js";
import { announcer, panel } from "./panel.js";
import { followAddress } from "./selection.js";
import { table } from "./table.js";

const at = (id) => document.getElementById(id);

for (const section of document.querySelectorAll(".live")) section.hidden = false;
themeButton(at("theme"));
finder(at("finder"));
panel(at("panel"));
announcer(at("announcer"));
canvas(at("graph"));
table(at("table"));
charts(at("figures"));
followAddress();
