// The report's script: fills the sections that need one, and shows them.

import { followAddress } from "./address.js";
import { themeButton } from "./appearance.js";
import { canvas } from "./canvas.js";
import { charts } from "./charts.js";
import { edges } from "./edges.js";
import { finder } from "./finder.js";
import { createPage } from "./page.js";
import { announcer, panel } from "./panel.js";
import { embedded } from "./source.js";
import { table } from "./table.js";

const at = (id) => document.getElementById(id);
const page = createPage(embedded(at("report-data").textContent));

for (const section of document.querySelectorAll(".live")) section.hidden = false;
themeButton(at("theme"));
finder(at("finder"), page);
panel(at("panel"), page);
announcer(at("announcer"), page);
canvas(at("graph"), page);
table(at("table"), page);
if (page.report.edges?.source.length) edges(at("edges"), page);
else at("edges-section").hidden = true;
charts(at("figures"), page);
followAddress(page);
