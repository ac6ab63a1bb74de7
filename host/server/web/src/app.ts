// One script for both pages.

import { policies } from "./admin";
import { answers } from "./main";

void (document.body.dataset["page"] === "policies" ? policies() : answers());
