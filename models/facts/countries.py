"""Countries under their common names and demonyms, so that "American" and "US" count as one."""

_NAMES = """
united states: american, us, u.s., usa, u.s.a., united states of america, america, the united states
united kingdom: british, uk, u.k., great britain, britain, the united kingdom
england: english
scotland: scottish
wales: welsh
ireland: irish, republic of ireland
northern ireland: northern irish
france: french
germany: german
italy: italian
spain: spanish
portugal: portuguese
netherlands: dutch, the netherlands, holland
belgium: belgian
luxembourg: luxembourgish, luxembourgian
switzerland: swiss
austria: austrian
poland: polish
czech republic: czech, czechia
slovakia: slovak, slovakian
hungary: hungarian
romania: romanian
bulgaria: bulgarian
greece: greek
albania: albanian
serbia: serbian
croatia: croatian, croat
slovenia: slovenian, slovene
bosnia and herzegovina: bosnian
montenegro: montenegrin
north macedonia: macedonian, macedonia
yugoslavia: yugoslav, yugoslavian
denmark: danish
norway: norwegian
sweden: swedish
finland: finnish
iceland: icelandic
estonia: estonian
latvia: latvian
lithuania: lithuanian
russia: russian, russian federation
soviet union: soviet, ussr, u.s.s.r.
ukraine: ukrainian
belarus: belarusian
moldova: moldovan
georgia: georgian
armenia: armenian
azerbaijan: azerbaijani
kazakhstan: kazakh, kazakhstani
uzbekistan: uzbek, uzbekistani
turkey: turkish, republic of turkey
cyprus: cypriot
malta: maltese
israel: israeli
palestine: palestinian
lebanon: lebanese
syria: syrian
jordan: jordanian
iraq: iraqi
iran: iranian, persian
saudi arabia: saudi, saudi arabian
united arab emirates: emirati, uae
kuwait: kuwaiti
qatar: qatari
egypt: egyptian
libya: libyan
tunisia: tunisian
algeria: algerian
morocco: moroccan
sudan: sudanese
ethiopia: ethiopian
somalia: somali
kenya: kenyan
uganda: ugandan
tanzania: tanzanian
rwanda: rwandan
nigeria: nigerian
ghana: ghanaian
senegal: senegalese
mali: malian
ivory coast: ivorian, côte d'ivoire
cameroon: cameroonian
angola: angolan
mozambique: mozambican
zambia: zambian
zimbabwe: zimbabwean
south africa: south african
madagascar: malagasy
india: indian, republic of india, british india
pakistan: pakistani
bangladesh: bangladeshi
sri lanka: sri lankan
nepal: nepalese, nepali
afghanistan: afghan
china: chinese, people's republic of china, prc
hong kong: hongkonger
taiwan: taiwanese
japan: japanese
south korea: south korean, republic of korea
north korea: north korean
mongolia: mongolian
vietnam: vietnamese
thailand: thai
cambodia: cambodian
laos: laotian
myanmar: burmese, burma
malaysia: malaysian
singapore: singaporean
indonesia: indonesian
philippines: filipino, filipina, philippine, the philippines
australia: australian
new zealand: new zealander
canada: canadian
mexico: mexican
guatemala: guatemalan
honduras: honduran
costa rica: costa rican
panama: panamanian
cuba: cuban
jamaica: jamaican
haiti: haitian
dominican republic: dominican
puerto rico: puerto rican
trinidad and tobago: trinidadian
colombia: colombian
venezuela: venezuelan
ecuador: ecuadorian
peru: peruvian
bolivia: bolivian
chile: chilean
argentina: argentine, argentinian
uruguay: uruguayan
paraguay: paraguayan
brazil: brazilian
"""


def _build_table() -> dict[str, str]:
    table: dict[str, str] = {}
    for line in _NAMES.strip().splitlines():
        country, aliases = line.split(":")
        table |= {alias.strip(): country for alias in aliases.split(",")}
    return table


_COUNTRY_OF = _build_table()


def canonical_country(text: str) -> str:
    """Lower-case country that a name or demonym stands for; unknown text only normalised."""
    normalised = " ".join(text.lower().split())
    return _COUNTRY_OF.get(normalised, normalised)
