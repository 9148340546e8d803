"""Countries and the words for their people, as encyclopedia leads write them."""

import re

# One line a country: its name, then the demonyms used for persons, films and songs.
_TABLE = """
Afghanistan|Afghan
Albania|Albanian
Algeria|Algerian
Argentina|Argentine|Argentinian|Argentinean
Armenia|Armenian
Australia|Australian
Austria|Austrian
Azerbaijan|Azerbaijani
Bangladesh|Bangladeshi
Belarus|Belarusian
Belgium|Belgian
Bolivia|Bolivian
Bosnia and Herzegovina|Bosnian
Botswana|Botswanan
Brazil|Brazilian
Bulgaria|Bulgarian
Burkina Faso|Burkinabé
Cambodia|Cambodian
Cameroon|Cameroonian
Canada|Canadian
Chile|Chilean
China|Chinese
Colombia|Colombian
Costa Rica|Costa Rican
Croatia|Croatian
Cuba|Cuban
Cyprus|Cypriot
Czech Republic|Czech
Czechoslovakia|Czechoslovak|Czechoslovakian
Denmark|Danish
Dominican Republic|
Ecuador|Ecuadorian
Egypt|Egyptian
England|English
Estonia|Estonian
Ethiopia|Ethiopian
Fiji|Fijian
Finland|Finnish
France|French
Georgia|Georgian
Germany|German
West Germany|West German
East Germany|East German
Ghana|Ghanaian
Greece|Greek
Guatemala|Guatemalan
Haiti|Haitian
Hong Kong|
Hungary|Hungarian
Iceland|Icelandic
India|Indian
Indonesia|Indonesian
Iran|Iranian
Iraq|Iraqi
Ireland|Irish
Israel|Israeli
Italy|Italian
Ivory Coast|Ivorian
Jamaica|Jamaican
Japan|Japanese
Jordan|Jordanian
Kazakhstan|Kazakhstani
Kenya|Kenyan
Kyrgyzstan|Kyrgyz
Latvia|Latvian
Lebanon|Lebanese
Libya|Libyan
Lithuania|Lithuanian
Luxembourg|Luxembourgish
Madagascar|Malagasy
Malaysia|Malaysian
Mali|Malian
Malta|Maltese
Mexico|Mexican
Moldova|Moldovan
Mongolia|Mongolian
Montenegro|Montenegrin
Morocco|Moroccan
Myanmar|Burmese
Nepal|Nepalese|Nepali
Netherlands|Dutch
New Zealand|New Zealand
Nicaragua|Nicaraguan
Nigeria|Nigerian
North Korea|North Korean
North Macedonia|Macedonian
Norway|Norwegian
Pakistan|Pakistani
Palestine|Palestinian
Panama|Panamanian
Paraguay|Paraguayan
Peru|Peruvian
Philippines|Filipino|Philippine
Poland|Polish
Portugal|Portuguese
Puerto Rico|Puerto Rican
Romania|Romanian
Russia|Russian
Saudi Arabia|Saudi
Scotland|Scottish
Senegal|Senegalese
Serbia|Serbian
Singapore|Singaporean
Slovakia|Slovak
Slovenia|Slovene|Slovenian
South Africa|South African
South Korea|South Korean
Soviet Union|Soviet
Spain|Spanish
Sri Lanka|Sri Lankan
Sudan|Sudanese
Sweden|Swedish
Switzerland|Swiss
Syria|Syrian
Taiwan|Taiwanese
Tanzania|Tanzanian
Thailand|Thai
Tunisia|Tunisian
Turkey|Turkish
Uganda|Ugandan
Ukraine|Ukrainian
United Kingdom|British
United States|American
Uruguay|Uruguayan
Uzbekistan|Uzbek
Venezuela|Venezuelan
Vietnam|Vietnamese
Wales|Welsh
Yugoslavia|Yugoslav|Yugoslavian
Zambia|Zambian
Zimbabwe|Zimbabwean
"""

_ROWS = [line.split("|") for line in _TABLE.strip().splitlines()]
COUNTRIES = (*(row[0] for row in _ROWS), "United States of America", "USA", "U.S.", "UK")
DEMONYMS = tuple(word for row in _ROWS for word in row[1:] if word)


def _alternatives(words: tuple[str, ...]) -> str:
    """A regular expression for any of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


COUNTRY_PATTERN = rf"(?:{_alternatives(COUNTRIES)})(?!\w)"
DEMONYM_PATTERN = rf"(?:{_alternatives(DEMONYMS)})(?!\w)"
