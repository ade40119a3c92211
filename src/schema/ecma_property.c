/* Unicode properties by the names of ECMA-262 (tables 67 to 69), which PCRE2 spells differently or shares
 * with names that ECMA-262 does not have. */
#include "config.h"

#include "ecma_int.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

static const struct { const char *name, *pcre; } categories[] = {
	{ "Cased_Letter", "L&" }, { "LC", "L&" },
	{ "Close_Punctuation", "Pe" }, { "Connector_Punctuation", "Pc" }, { "Control", "Cc" }, { "cntrl", "Cc" },
	{ "Currency_Symbol", "Sc" }, { "Dash_Punctuation", "Pd" }, { "Decimal_Number", "Nd" }, { "digit", "Nd" },
	{ "Enclosing_Mark", "Me" }, { "Final_Punctuation", "Pf" }, { "Format", "Cf" }, { "Initial_Punctuation", "Pi" },
	{ "Letter", "L" }, { "Letter_Number", "Nl" }, { "Line_Separator", "Zl" }, { "Lowercase_Letter", "Ll" },
	{ "Mark", "M" }, { "Combining_Mark", "M" }, { "Math_Symbol", "Sm" }, { "Modifier_Letter", "Lm" },
	{ "Modifier_Symbol", "Sk" }, { "Nonspacing_Mark", "Mn" }, { "Number", "N" }, { "Open_Punctuation", "Ps" },
	{ "Other", "C" }, { "Other_Letter", "Lo" }, { "Other_Number", "No" }, { "Other_Punctuation", "Po" },
	{ "Other_Symbol", "So" }, { "Paragraph_Separator", "Zp" }, { "Private_Use", "Co" }, { "Punctuation", "P" },
	{ "punct", "P" }, { "Separator", "Z" }, { "Space_Separator", "Zs" }, { "Spacing_Mark", "Mc" },
	{ "Surrogate", "Cs" }, { "Symbol", "S" }, { "Titlecase_Letter", "Lt" }, { "Unassigned", "Cn" },
	{ "Uppercase_Letter", "Lu" },
};

static const char short_categories[] = " C Cc Cf Cn Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps "
				       "S Sc Sk Sm So Z Zl Zp Zs ";

static const char binary[] =
	" ASCII ASCII_Hex_Digit AHex Alphabetic Alpha Any Bidi_Control Bidi_C Bidi_Mirrored Bidi_M Case_Ignorable CI "
	"Cased Changes_When_Casefolded CWCF Changes_When_Casemapped CWCM Changes_When_Lowercased CWL "
	"Changes_When_Titlecased CWT Changes_When_Uppercased CWU Dash Default_Ignorable_Code_Point DI Deprecated Dep "
	"Diacritic Dia Emoji Emoji_Component EComp Emoji_Modifier EMod Emoji_Modifier_Base EBase Emoji_Presentation "
	"EPres Extended_Pictographic ExtPict Extender Ext Grapheme_Base Gr_Base Grapheme_Extend Gr_Ext Hex_Digit Hex "
	"IDS_Binary_Operator IDSB IDS_Trinary_Operator IDST ID_Continue IDC ID_Start IDS Ideographic Ideo "
	"Join_Control Join_C Logical_Order_Exception LOE Lowercase Lower Math Noncharacter_Code_Point NChar "
	"Pattern_Syntax Pat_Syn Pattern_White_Space Pat_WS Quotation_Mark QMark Radical Regional_Indicator RI "
	"Sentence_Terminal STerm Soft_Dotted SD Terminal_Punctuation Term Unified_Ideograph UIdeo Uppercase Upper "
	"Variation_Selector VS White_Space space XID_Continue XIDC XID_Start XIDS ";

static bool is_word(const char *list, const char *word)
{
	char spaced[ECMA_PROPERTY_MAX + 2];

	(void)snprintf(spaced, sizeof spaced, " %s ", word);
	return strstr(list, spaced) != NULL;
}

static bool category(const char *name, char ret[ECMA_PROPERTY_MAX])
{
	const char *found = is_word(short_categories, name) ? name : NULL;

	for (size_t i = 0; i < NELEMS(categories) && !found; i++)
		if (strcmp(categories[i].name, name) == 0)
			found = categories[i].pcre;
	if (found)
		(void)snprintf(ret, ECMA_PROPERTY_MAX, "%s", found);
	return found != NULL;
}

/* NAME=VALUE; PCRE2 knows the scripts and refuses what is none. */
static bool with_value(const char *name, const char *value, char ret[ECMA_PROPERTY_MAX])
{
	const char *kind = NULL;
	int n;

	if (strcmp(name, "General_Category") == 0 || strcmp(name, "gc") == 0)
		return category(value, ret);
	if (strcmp(name, "Script") == 0 || strcmp(name, "sc") == 0)
		kind = "sc";
	else if (strcmp(name, "Script_Extensions") == 0 || strcmp(name, "scx") == 0)
		kind = "scx";
	if (!kind || !*value)
		return false;
	n = snprintf(ret, ECMA_PROPERTY_MAX, "%s:%s", kind, value);
	return n < ECMA_PROPERTY_MAX;
}

bool ecma_property(const char *p, size_t len, char ret[ECMA_PROPERTY_MAX], bool *negated)
{
	char name[ECMA_PROPERTY_MAX], *value;

	if (!len || len >= sizeof name)
		return false;
	for (size_t i = 0; i < len; i++)
		if (p[i] != '_' && p[i] != '=' && !(p[i] >= '0' && p[i] <= '9') &&
		    !((p[i] | 0x20) >= 'a' && (p[i] | 0x20) <= 'z'))
			return false;
	memcpy(name, p, len);
	name[len] = '\0';
	value = strchr(name, '=');
	if (value) {
		*value++ = '\0';
		return with_value(name, value, ret);
	}
	if (strcmp(name, "Assigned") == 0) {
		*negated = !*negated;
		return category("Unassigned", ret);
	}
	if (category(name, ret))
		return true;
	(void)snprintf(ret, ECMA_PROPERTY_MAX, "%s", name);
	return is_word(binary, name);
}
