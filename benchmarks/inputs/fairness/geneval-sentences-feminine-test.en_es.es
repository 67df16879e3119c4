Se crio en un pequeño pueblo pesquero y se formó como carpintera antes de convertirse en una célebre escultora cuyas obras se expusieron en varias capitales europeas.
Tras la guerra regresó a Lisboa, donde trabajó como traductora y más tarde como redactora de un periódico de izquierdas.
La joven actriz fue elogiada por la crítica por su contenida interpretación y ese mismo año fue nominada a dos premios nacionales de cine, aunque nunca había tomado una sola clase de interpretación antes de ser contratada.
Madre soltera de tres hijos, trabaja de noche como enfermera en el hospital local mientras estudia Derecho durante el día.
Al ser la hija mayor de un rico comerciante, se esperaba que ella se hiciera cargo del negocio familiar, pero prefirió estudiar astronomía y acabó desheredada por su padre.
Nombrada para el Tribunal Supremo en 1998, fue la jueza más joven de su historia y una firme defensora de la libertad de prensa.
Es una exnadadora profesional que representó a su país en tres Juegos Olímpicos y ahora trabaja como entrenadora en Melbourne, donde vive con su hermana y colabora como bombera voluntaria.
En 1911 fue detenida por repartir octavillas y condenada a dos meses de prisión.
La película sigue a una mujer solitaria que, cansada de su trabajo como contadora, decide cruzar el desierto en bicicleta.
Considerada una de las mejores pianistas de su generación, fue también una profesora generosa y una compositora de gran talento.
La reina tenía solo diecinueve años cuando fue coronada, y durante los primeros años estuvo aconsejada por un tío ambicioso.
Perdió su escaño en las siguientes elecciones y se retiró de la política, decepcionada y muy endeudada, para hacerse apicultora.
Siendo una joven cirujana, se hizo conocida por su trabajo con víctimas de quemaduras y más tarde fundó una clínica en Nairobi, de la que fue directora hasta que la asesinaron durante la guerra civil.
La heroína de la novela es una tímida bibliotecaria que descubre que es la última descendiente de una familia de hechiceros.
Se incorporó al equipo como portera en 2006 y fue elegida capitana por sus compañeros apenas cuatro meses después.
Ciega de nacimiento, aprendió a tocar el arpa a los seis años y llegó a ser una respetada profesora de música en Dublín.
Durante su segundo mandato como alcaldesa fue acusada de aceptar sobornos, pero quedó absuelta de todos los cargos.
Es conocida sobre todo como autora de una serie de novelas policíacas sobre un detective jubilado que vive en una isla remota.
La hermana menor de la princesa fue criada por campesinos y no supo hasta la edad adulta que ella era de sangre real.
Fue la primera ingeniera en la historia de la empresa en ser ascendida a directora, cargo que ocupó hasta su muerte.
Convencida de que la seguían, la espía quemó sus papeles y huyó al otro lado de la frontera disfrazada de pastora.
Estudió filosofía en Viena, donde fue alumna de varios miembros del Círculo y amiga del poeta Kessler.
La empresaria fue secuestrada cuando volvía a casa de la oficina y liberada ilesa once días después.
A diferencia de su predecesor, la nueva canciller era una reformadora prudente y rara vez hablaba con la prensa sin notas.
Comenzó su carrera como presentadora del tiempo en la televisión regional antes de ser contratada como corresponsal política en Bruselas.
La monja pasó cuarenta años en la abadía, donde era la encargada del jardín de hierbas, y, aunque estaba casi sorda, los novicios la buscaban como confidente.
En la tercera temporada se pone celosa de su nuevo vecino, un dentista encantador, e intenta que desalojen a sus propios padres.
Apasionada montañera desde su juventud, fue hallada muerta en la cara norte, a solo unos metros de la cumbre.
Había sido una leal partidaria del emperador, pero fue desterrada de la corte tras la fallida campaña de 1604.
El informe la describe como una alumna ambiciosa pero solitaria que faltaba a menudo y que había sido tratada por depresión.
Se casó en 1952 y, tras quedar viuda, adoptó a los gemelos que había dejado su difunto primo.
Aunque se había formado como bailarina, durante muchos años se ganó la vida como conductora de taxi en Chicago.
La condesa era una entusiasta coleccionista de mariposas y legó toda su colección al museo de historia natural.
Actualmente es la única científica de la región invitada al congreso, donde hablará de los arrecifes de coral.
Acusada de traición, fue llevada ante un tribunal militar, declarada culpable sin un solo testigo y fusilada a la mañana siguiente, pero medio siglo después fue rehabilitada y celebrada como mártir.
Sus amigos la recuerdan como una compañera honesta, terca y divertida que nunca olvidaba un cumpleaños y nunca llegaba a tiempo.
Tras su lesión, la gimnasta se vio obligada a dejar la competición y pasó a ser fisioterapeuta de la selección nacional.
Era hija de un panadero y sobrina de un obispo, y fue educada en casa por un preceptor.
El programa está presentado por una antigua política que en su día fue ella misma concursante y perdió en la primera ronda.
Afirmaba ser descendiente del profeta y fue venerada como una santa por sus seguidores hasta que desapareció en 1877.
La paciente, una mujer de treinta años, fue ingresada con fiebre alta y dijo al médico que había regresado hacía poco de Perú.
Fue cofundadora de la cooperativa y ejerció como tesorera durante una década, sin cobrar y casi inadvertida para los demás agricultores.
En el escenario parece segura de sí misma e incluso arrogante, pero en las entrevistas se ha descrito como una perfeccionista ansiosa.
Se mudó a Toronto con sus abuelos y trabajó de camarera en un club de jazz.
En 1943 se ofreció como voluntaria para el puesto de operadora de radio, fue lanzada en paracaídas sobre territorio ocupado y capturada a la semana de llegar.
Sigue siendo la mujer más alta registrada en el condado y fue enterrada en un ataúd fabricado por su hermano.
La diosa suele ser representada como una amazona armada y rodeada de lobos, con una antorcha en la mano izquierda.
Esperaba ser oficial, pero fue rechazada por su mala vista y se hizo cocinera.
Con un dominio de siete idiomas, fue contratada como intérprete en las conversaciones de paz y más tarde escribió sus memorias sobre ellas.
La presidenta del club anunció que estaba dispuesta a dimitir si los socios ya no estaban contentos con ella.
Es la menor de cinco hermanas, todas ellas músicas profesionales, y la única que ha estudiado en el extranjero.
Los críticos calificaron el último disco de la cantante como su obra más personal, y ella fue invitada a interpretarlo en la ópera.
Ya debilitada por la enfermedad, dictó los últimos capítulos a su secretaria y murió antes de que se publicara el libro.
La inspectora es una madre divorciada, adicta a los analgésicos, que sospecha que uno de sus propios compañeros es el asesino.
Fue embajadora en Japón de 1987 a 1991 y posteriormente fue nombrada asesora del ministro de Asuntos Exteriores.
Según la leyenda local, el fantasma de una joven criada aún recorre los pasillos en busca de su llave de plata perdida.
Ganó la medalla de plata en Múnich como ciclista y, sorprendentemente, la de bronce como patinadora de velocidad cuatro años más tarde.
No fue una escritora prolífica, pero sí una crítica influyente, temida por los editores y admirada por los poetas más jóvenes.
La abuela de la novia asistió a la ceremonia en silla de ruedas porque había resultado gravemente herida en un accidente de tráfico.
En este puesto supervisó la construcción de tres presas y fue criticada por los vecinos que habían sido expulsados de sus casas.
Tiene licencia de piloto, es una buceadora experimentada y realizó ella misma todas sus escenas de riesgo en la película.
Cuando fue elegida obispa, varias parroquias protestaron y se vio obligada a viajar con un guardaespaldas durante más de un año.
La niña había sido abandonada a las puertas del convento y recibió el nombre del santo en cuya fiesta fue encontrada.
Entre los demás presos era conocida como una hábil falsificadora capaz de imitar cualquier firma tras verla una sola vez.
Como opositora, estaba sometida a una vigilancia constante, y en 1974 fue expulsada de la universidad.
Aprendió a pintar por sí misma mientras se recuperaba de la tuberculosis y vendió su primer lienzo a un médico del sanatorio.
La duquesa se puso furiosa al enterarse de que no había sido consultada y despidió al arquitecto en el acto.
Es profesora emérita de Química y académica extranjera de la institución, para la que fue elegida en 2003.
Fue atacada por un tiburón a los trece años, pero volvió a hacer surf apenas un mes después de salir del hospital.
Por ser zurda, la aprendiza era golpeada por el maestro, y a los quince años se escapó para unirse a un circo.
El fiscal sostuvo que ella sabía lo del veneno, mientras que la defensa la presentó como una criada ingenua y obediente.
Fue una de las pocas reporteras que permanecieron en la ciudad sitiada, y resultó herida dos veces por la metralla, pero se negó a ser evacuada hasta que el último niño herido estuvo a salvo.
Una vez por semana, la directora del colegio invitaba a los alumnos a su piso, donde les leía historias de fantasmas a la luz de las velas.
Se convirtió en ciudadana de Canadá en 1969, tras haber llegado allí doce años antes como una refugiada sin dinero.
La ganadora, una trabajadora de correos jubilada, dijo que se quedó tan sorprendida que tuvo que comprobar el boleto cuatro veces.
Fue criada en el catolicismo, se convirtió al budismo a los treinta y tantos y en la vejez se definía como una atea risueña.
La bruja cae engañada por los huérfanos, que la encierran en su propio sótano y liberan a los animales encantados.
Desde 2015 es la directora titular de la orquesta de la ciudad, que ya había dirigido en varias ocasiones como invitada.
Era tan querida entre los obreros que, cuando fue despedida, toda la fábrica se declaró en huelga.
Heredera de la fortuna de una tía, era económicamente independiente y pudo dedicarse por completo a su pasión, la fotografía.
La agente de policía que descubrió el cadáver declaró que estaba sola en el edificio cuando oyó los disparos.
Fue nombrada pintora de la corte en 1782, pero la despidieron cuando su retrato del rey disgustó al cardenal.
En el segundo episodio es mordida por un vampiro y, preocupada por su familia, se esconde en un molino abandonado.
Trabajó brevemente como peluquera y socorrista antes de ser descubierta en la playa por un agente de modelos.
Su biógrafo sugiere que la emperatriz nunca estuvo realmente interesada en el poder y que habría sido más feliz como jardinera.
Estuvo entre los pasajeros rescatados del ferri que se hundía y fue atendida por hipotermia junto con sus dos hijos.
Opositora de la pena de muerte durante toda su vida, defendió como abogada a más de doscientos clientes y nunca cobró a una familia pobre.
Interpreta a una banquera despiadada que en Nochevieja es visitada por los fantasmas de las personas a las que arruinó.
La madrastra, que había vivido décadas en el extranjero, afirmó que no había sido informada de la enfermedad del chico.
Batió un récord mundial como corredora de velocidad en 1983, pero más tarde fue descalificada tras dar positivo por esteroides.
Cansada de la vida urbana, compró una casa de campo en ruinas en la Toscana y se convirtió en una exitosa viticultora.
A menudo ha sido comparada con su primo, más famoso, aunque ella era la pensadora más original de los dos con diferencia.
La directora de la agencia, bióloga de formación, advirtió al Gobierno, pero fue ignorada y finalmente sustituida por un banquero.
Asociada con su hermano, abrió en Marsella una panadería que pronto se convirtió en el lugar de reunión de los escritores exiliados.
De niña era tímida, pero ya en la escuela sus profesores la consideraban una matemática brillante.
La hija del sheriff se enamora de un forajido y se ve dividida entre su deber hacia la familia y su anhelo de libertad.
Fue homenajeada a título póstumo como heroína de guerra, y frente a la estación se inauguró una estatua suya de bronce.
No era fumadora ni bebedora, y atribuía su larga vida a los paseos diarios y a haber permanecido soltera.
Fue sorprendida vendiendo cuadros robados a un marchante de Ginebra y confesó que había sido la cabecilla de la banda.
Se creía que la sacerdotisa podía predecir el futuro, y era consultada antes de cada batalla importante.
Es fundadora y directora general de una empresa de software que emplea a más de trescientas personas en Tallin; antes fue profesora, conductora de tranvía y, brevemente, monologuista cómica.
Fue trasladada a una prisión del norte, donde la mantuvieron aislada de los demás reclusos durante nueve años.
Al preguntársele por qué nunca había escrito una secuela, la novelista respondió que era demasiado perezosa y demasiado feliz para hacerlo.
Estuvo prometida durante tres años, pero rompió el compromiso para hacerse misionera en Madagascar.
La camarera se negó a atender al senador, fue despedida esa misma noche y se hizo famosa de un día para otro al contar su historia.
Fue la única superviviente de la expedición, pues la habían dejado en el campamento base por una fractura de tobillo, y durante años fue acusada falsamente de haber abandonado a sus compañeros.
A pesar de ser la favorita, fue eliminada en cuartos de final por un jugador desconocido diez años menor que ella.
En sus cartas se queja de que sus parientes la tratan como a una extraña y de sentirse vieja, fea e inútil.
Fue la primera oficial negra al mando del regimiento, y sus soldados la consideraban estricta pero justa.
El estudio siguió a un grupo de niñas nacidas prematuras y examinadas por los mismos médicos cada cinco años.
Se doctoró en 1961 y después fue invitada a Princeton como investigadora visitante, donde se quedó para siempre.
La casera es una viuda amargada y desconfiada que espía a sus inquilinos por un agujero en la pared.
Estaba inscrita en el censo electoral de dos condados, un error del que culpó a un asistente descuidado de su oficina.
Su madre quería que fuera farmacéutica, pero estaba fascinada por las máquinas y se hizo aprendiza de relojero.
Entre 1920 y 1924 vivió como ermitaña en las montañas, visitada únicamente por un pastor que le llevaba pan.
La portavoz del sindicato dijo que estaba preocupada por los planes y dispuesta a dirigir ella misma las negociaciones.
Empezó como ayudante de un fotógrafo de moda y pronto estuvo muy solicitada como estilista de revistas en Milán.
La consideraban demasiado vieja para el papel, pero el director insistió en contratarla porque era una cómica de gran talento.
La abadesa gozaba de respeto como teóloga erudita y se carteaba con varios reyes, a los que no dudaba en reprender.
Hija ilegítima de un obispo, fue ocultada en un monasterio y no fue reconocida legalmente hasta los treinta años.
Más tarde admitió que estaba borracha durante la emisión y pidió disculpas a los espectadores y a su copresentador.
Fue licenciada del ejército por invalidez y pasó sus últimos años como portera en la escuela de un pueblo.
La baronesa era una excelente tiradora y una elegante esquiadora, pero era odiada por la servidumbre a causa de su mal genio.
Trabaja como ilustradora por cuenta propia y comparte estudio con un escultor, con quien ha expuesto en Praga y Kioto.
Según la policía, la sospechosa iba armada cuando entró en el banco y amenazó al cajero con un cuchillo; fue detenida dos horas después, dormida en una furgoneta robada cerca del puerto.
Se la recuerda como una incansable defensora del agua limpia y como la primera alcaldesa de la ciudad en ser reelegida cuatro veces.
Al principio los aldeanos desconfiaban de ella, pero pronto confiaron en la nueva doctora, que era invitada a todas las bodas.
Trabaja como productora desde 2010 y fue elegida revelación del año.
La zarina fue despertada por los disparos y huyó por un túnel secreto, acompañada solo por su médico y un mozo de cuadra.
Al principio fue contratada como obrera sin cualificación en el astillero, pero asistió a clases nocturnas y se hizo soldadora.
Se retiró como la atleta más condecorada de su nación y fue recibida en el aeropuerto por miles de aficionados entusiasmados.
La tía de los dos huérfanos es nombrada su tutora, pero solo está interesada en el dinero que han heredado.
Frustrada por la falta de fondos, emigró a Suecia, donde es hoy una destacada experta en energía eólica y una conferenciante muy solicitada, conocida por ser directa, divertida e impaciente.
Fue bautizada con un nombre falso, porque sus padres temían que fuera perseguida por ser hija de herejes.
En Estados Unidos está considerada una pionera de los títeres modernos, pero en su tierra natal está casi olvidada.
La vendedora insistió en que había sido engañada por el fabricante y en que no era responsable de los calefactores defectuosos.
Es una crítica franca del sector y ha sido demandada tres veces por empresas citadas en sus artículos.
Fue la última hablante de la lengua y, en sus últimos años, fue visitada con regularidad por lingüistas con grabadoras.
La mecánica que reparó el globo fue elogiada por la tripulación y viajó como pasajera en el siguiente vuelo.
Estaba tan delgada tras el asedio que su propia hija no la reconoció al principio.
De adolescente era una prometedora jugadora de ajedrez, pero dejó los torneos para hacerse veterinaria.
La anfitriona de la velada era una encantadora señora de unos sesenta años que se presentó como una cantante de ópera retirada.
Fue distinguida por la Corona por sus servicios a la ciencia y, aunque ya estaba gravemente enferma, viajó a Londres para recibir el honor en persona.
La nueva azafata estaba aterrorizada de volar y confesó al comandante que había mentido en su solicitud.
Se formó como matemática, trabajó de programadora en las primeras misiones espaciales y ahora es una popular autora de libros infantiles.
La princesa se niega a casarse con el hombre que han elegido para ella y escapa de noche, vestida de mendiga.
Trabajó codo con codo con Harlow, que más tarde la describió como la observadora más cuidadosa y la peor cocinera del barco.
La víctima, una limpiadora del museo, fue hallada inconsciente por un guardia y no recordaba quién la había atacado.
Fue una estrecha asesora de dos presidentes y la artífice de la reforma fiscal, pero siguió siendo desconocida para el público.
Orgullosa de sus orígenes humildes, la senadora solía contar a los periodistas que había sido carnicera.
